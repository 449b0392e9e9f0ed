// Opens the library of kernels. Part of the libraries that use it.
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "core/cuda/library.h"

namespace fused_rnn {
namespace cuda {
namespace {

std::string path() {
  const char* const named = std::getenv("FUSED_RNN_CUDA_LIBRARY");
  if (named && *named) return named;
  Dl_info here;
  if (!dladdr(reinterpret_cast<const void*>(&open_library), &here)) return "";
  const std::string self = here.dli_fname;
  return self.substr(0, self.rfind('/') + 1) + "_fused_rnn_cuda.so";
}

struct Opened {
  const Library* library = nullptr;
  std::string error;
};

Opened open(const std::string& file) {
  // Never closed: its kernels may still be running when the process ends.
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* const why = dlerror();
    return {nullptr,
            "the CUDA kernels of fused_rnn cannot be loaded: " +
                std::string(why ? why : file)};
  }
  using Function = const Library* (*)();
  const auto function =
      reinterpret_cast<Function>(dlsym(handle, "fused_rnn_cuda_library"));
  const Library* const library = function ? function() : nullptr;
  if (!library || library->size != sizeof(Library))
    return {nullptr, file + " belongs to another build of fused_rnn"};
  return {library, ""};
}

}  // namespace

const Library* open_library(std::string* error) {
  // Never destroyed: a thread may still look while the process ends.
  static auto* const mutex = new std::mutex;
  static auto* const known = new std::map<std::string, Opened>;
  const std::string file = path();
  const std::lock_guard<std::mutex> lock(*mutex);
  auto found = known->find(file);
  if (found == known->end()) found = known->emplace(file, open(file)).first;
  *error = found->second.error;
  return found->second.library;
}

}  // namespace cuda
}  // namespace fused_rnn
