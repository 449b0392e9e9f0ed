// The library of kernels for NVIDIA GPUs, as other rooms see it. It contains a
// CUDA runtime of its own and is opened when the first kernel is to run, so
// that whoever has no driver meets nothing of it. Plain C++.
#ifndef FUSED_RNN_CORE_CUDA_LIBRARY_H_
#define FUSED_RNN_CORE_CUDA_LIBRARY_H_

#include <string>

#include "core/cuda/rnn_cuda.h"

namespace fused_rnn {
namespace cuda {

// The functions of a call.
template <class Call>
struct Entry {
  std::size_t (*workspace_bytes)(const Call&);
  Error (*run)(const Call&, const Device&, void* workspace);
};

template <class T>
struct Entries : Entry<RnnForward<T>>,
                 Entry<RnnBackward<T>>,
                 Entry<RnnInputGradient<T>>,
                 Entry<RnnWeightGradient<T>> {};

// What the machine offers to calls. Pointers are to device memory.
struct Machine {
  // Why no kernel can run here; nothing if there is a driver and a GPU.
  Error (*available)();
  // Versions and GPUs in a line of text.
  void (*describe)(char* text, std::size_t size);
  // The matrix product by a cuBLAS that the process has loaded. A device's is
  // this call's alone from begin to end, which follows in any case if begin
  // gave no error. `tf32`: float32 products may round their factors to TF32.
  // The workspace is `product_workspace_bytes`, in use until the stream has
  // done what is enqueued.
  Error (*begin)(void* stream, void* workspace, bool tf32, Device* device);
  void (*end)(const Device& device);
  std::size_t product_workspace_bytes;
  Error (*zero)(void* to, std::size_t bytes, void* stream);
  // Rows of `width` bytes, `to_row` and `from_row` bytes apart.
  Error (*copy)(void* to, std::size_t to_row, const void* from,
                std::size_t from_row, std::size_t width, std::size_t rows,
                void* stream);
};
const Machine& machine();

struct Library : Entries<float>,
                 Entries<double>,
                 Entries<Half>,
                 Entries<BFloat16>,
                 Machine {
  std::size_t size = sizeof(Library);
};

// Opens the library beside the one that contains this function, or the one that
// FUSED_RNN_CUDA_LIBRARY names; each once. Null: `error` is a sentence.
const Library* open_library(std::string* error);

// Runs a call on a stream; `workspace` is call_bytes().
template <class Call>
std::size_t call_bytes(const Library& library, const Call& call) {
  const Entry<Call>& entry = library;
  const std::size_t own = entry.workspace_bytes(call);
  return (own + kWorkspaceAlignment - 1) / kWorkspaceAlignment *
             kWorkspaceAlignment +
         library.product_workspace_bytes;
}
template <class Call>
Error run_call(const Library& library, const Call& call, void* stream,
               bool tf32, void* workspace) {
  const Entry<Call>& entry = library;
  // cuBLAS asks for the larger alignment: it gets the start.
  Device device;
  FUSED_RNN_TRY(library.begin(stream, workspace, tf32, &device));
  const Error error =
      entry.run(call, device, static_cast<char*>(workspace) +
                                  library.product_workspace_bytes);
  library.end(device);
  return error;
}

}  // namespace cuda
}  // namespace fused_rnn

extern "C" const fused_rnn::cuda::Library* fused_rnn_cuda_library();

#endif  // FUSED_RNN_CORE_CUDA_LIBRARY_H_
