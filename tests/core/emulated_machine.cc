// The machine of the emulated CUDA library: device memory is the process' own,
// a stream is any number, and products are plain loops.
#include <cstdio>
#include <cstring>

#include "core/cuda/library.h"
#include "core/plain_product.h"

namespace fused_rnn {
namespace cuda {
namespace {

Error available() { return {}; }

void describe(char* text, std::size_t size) {
  std::snprintf(text, size, "emulated on the CPU");
}

// Room for nothing, to be found by a sanitizer if a call uses it.
constexpr std::size_t kProductBytes = 256;

Error begin(void* stream, void* workspace, bool, Device* device) {
  std::memset(workspace, 0xff, kProductBytes);
  static thread_local Index products;
  *device = {stream, test::plain_product, &products};
  return {};
}

void end(const Device&) {}

Error zero(void* to, std::size_t bytes, void*) {
  std::memset(to, 0, bytes);
  return {};
}

Error copy(void* to, std::size_t to_row, const void* from, std::size_t from_row,
           std::size_t width, std::size_t rows, void*) {
  for (std::size_t i = 0; i < rows; ++i)
    std::memcpy(static_cast<char*>(to) + i * to_row,
                static_cast<const char*>(from) + i * from_row, width);
  return {};
}

}  // namespace

const Machine& machine() {
  static const Machine here = {available, describe,      begin, end,
                               kProductBytes, zero, copy};
  return here;
}

}  // namespace cuda
}  // namespace fused_rnn
