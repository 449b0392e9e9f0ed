// The one symbol that the library of kernels offers.
#include "core/cuda/library.h"

namespace fused_rnn {
namespace cuda {
namespace {

template <class T>
void fill(Entries<T>& entries) {
  static_cast<Entry<RnnForward<T>>&>(entries) = {workspace_bytes, rnn_forward};
  static_cast<Entry<RnnBackward<T>>&>(entries) = {workspace_bytes,
                                                  rnn_backward};
  static_cast<Entry<RnnInputGradient<T>>&>(entries) = {workspace_bytes,
                                                       rnn_input_gradient};
  static_cast<Entry<RnnWeightGradient<T>>&>(entries) = {workspace_bytes,
                                                        rnn_weight_gradient};
}

Library make_library() {
  Library library;
  fill<float>(library);
  fill<double>(library);
  fill<Half>(library);
  fill<BFloat16>(library);
  static_cast<Machine&>(library) = machine();
  return library;
}

}  // namespace
}  // namespace cuda
}  // namespace fused_rnn

extern "C" __attribute__((visibility("default")))
const fused_rnn::cuda::Library* fused_rnn_cuda_library() {
  static const fused_rnn::cuda::Library library =
      fused_rnn::cuda::make_library();
  return &library;
}
