// The calls of core/cuda/rnn_cuda.h by one name.
#ifndef FUSED_RNN_TESTS_CORE_CUDA_CALLS_H_
#define FUSED_RNN_TESTS_CORE_CUDA_CALLS_H_

#include "core/cuda/rnn_cuda.h"
#include "core/plain_product.h"

namespace fused_rnn {
namespace test {

template <class T>
cuda::Error call(const RnnForward<T>& g, const cuda::Device& d, void* w) {
  return cuda::rnn_forward(g, d, w);
}
template <class T>
cuda::Error call(const RnnBackward<T>& g, const cuda::Device& d, void* w) {
  return cuda::rnn_backward(g, d, w);
}
template <class T>
cuda::Error call(const RnnInputGradient<T>& g, const cuda::Device& d, void* w) {
  return cuda::rnn_input_gradient(g, d, w);
}
template <class T>
cuda::Error call(const RnnWeightGradient<T>& g, const cuda::Device& d,
                 void* w) {
  return cuda::rnn_weight_gradient(g, d, w);
}

}  // namespace test
}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CORE_CUDA_CALLS_H_
