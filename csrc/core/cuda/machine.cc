// The CUDA runtime, as far as calls need more than launches.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>

#include "core/cuda/cublas.h"
#include "core/cuda/library.h"

namespace fused_rnn {
namespace cuda {
namespace {

Error error_of(const char* where, cudaError_t result) {
  if (result == cudaSuccess) return {};
  return {where, cudaGetErrorString(result)};
}

Error available() {
  int devices = 0;
  const Error error = error_of("no GPU can be used",
                               cudaGetDeviceCount(&devices));
  if (error) return error;
  if (devices == 0) return {"no GPU can be used", "there is none"};
  return {};
}

// Appends to a text of limited size.
template <class... Values>
void print(char*& text, std::size_t& size, const char* format,
           Values... values) {
  const int written = std::snprintf(text, size, format, values...);
  const std::size_t used = std::min(
      size > 0 ? size - 1 : 0, static_cast<std::size_t>(std::max(0, written)));
  text += used;
  size -= used;
}

void describe(char* text, std::size_t size) {
  int runtime = 0, driver = 0, devices = 0;
  (void)cudaRuntimeGetVersion(&runtime);
  (void)cudaDriverGetVersion(&driver);
  print(text, size, "CUDA %d.%d, ", runtime / 1000, runtime % 1000 / 10);
  if (driver == 0) {
    print(text, size, "no driver");
    return;
  }
  print(text, size, "driver for CUDA %d.%d", driver / 1000, driver % 1000 / 10);
  const cudaError_t result = cudaGetDeviceCount(&devices);
  if (result != cudaSuccess)
    print(text, size, ", %s", cudaGetErrorString(result));
  for (int i = 0; result == cudaSuccess && i < devices; ++i) {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    print(text, size, ", %s (compute capability %d.%d)", properties.name,
          properties.major, properties.minor);
  }
}

Error zero(void* to, std::size_t bytes, void* stream) {
  return error_of("zero", cudaMemsetAsync(to, 0, bytes,
                                          static_cast<cudaStream_t>(stream)));
}

Error copy(void* to, std::size_t to_row, const void* from, std::size_t from_row,
           std::size_t width, std::size_t rows, void* stream) {
  return error_of("copy",
                  cudaMemcpy2DAsync(to, to_row, from, from_row, width, rows,
                                    cudaMemcpyDeviceToDevice,
                                    static_cast<cudaStream_t>(stream)));
}

}  // namespace

const Machine& machine() {
  static const Machine here = {available,    describe,
                               begin_cublas, end_cublas,
                               kCublasBytes, zero,
                               copy};
  return here;
}

}  // namespace cuda
}  // namespace fused_rnn
