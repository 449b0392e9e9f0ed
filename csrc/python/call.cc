#include "python/call.h"

#include <cxxabi.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string>

#include "core/isa.h"

namespace fused_rnn {
namespace python {
namespace {

// What a thread keeps for its next call. More is given back at once.
constexpr std::size_t kKeptBytes = std::size_t{32} << 20;

}  // namespace

AlignedBytes::AlignedBytes(std::size_t bytes) : size_(bytes) {
  void* p = nullptr;
  if (posix_memalign(&p, kWorkspaceAlignment, bytes) != 0) {
    throw std::bad_alloc();
  }
  data_.reset(p);
}

void AlignedBytes::Free::operator()(void* p) const { std::free(p); }

CallThreads::CallThreads() {
  if (shared_thread_count() == 1) return;
  pool_ = shared_thread_pool();
  threads_ = pool_->threads();
}

void* scratch(std::size_t bytes) {
  thread_local AlignedBytes kept;
  if (bytes > kept.size() || kept.size() > kKeptBytes) {
    kept = AlignedBytes();
    kept = AlignedBytes(bytes);
  }
  return kept.get();
}

void take_gil(PyThreadState* state) {
  try {
    PyEval_RestoreThread(state);
  } catch (abi::__forced_unwind&) {
    for (;;) pause();
  }
}

void require_valid_isa() {
  static bool valid = false;
  if (valid) return;
  const std::string error = isa_error();
  if (!error.empty()) throw pybind11::value_error(error);
  valid = true;
}

}  // namespace python
}  // namespace fused_rnn
