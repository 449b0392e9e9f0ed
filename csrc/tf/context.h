// What kernels of TensorFlow ops share: element types, checks of sizes.
#ifndef FUSED_RNN_TF_CONTEXT_H_
#define FUSED_RNN_TF_CONTEXT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "core/rnn.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"

namespace fused_rnn {

// The core's name of a TensorFlow element type; the bits are the same.
template <class T>
struct CoreTypeOf {
  using type = T;
};
template <>
struct CoreTypeOf<Eigen::half> {
  using type = Half;
};
template <>
struct CoreTypeOf<Eigen::bfloat16> {
  using type = BFloat16;
};
template <class T>
using CoreType = typename CoreTypeOf<T>::type;

// Not through flat<T>(), which aborts on memory that is not aligned for Eigen,
// as slices and foreign buffers may be. The core needs no alignment.
template <class T>
const CoreType<T>* input_data(const tensorflow::Tensor& tensor) {
  return static_cast<const CoreType<T>*>(tensor.data());
}
template <class T>
CoreType<T>* output_data(tensorflow::Tensor* tensor) {
  return static_cast<CoreType<T>*>(tensor->data());
}

// a + b and a * b of sizes; false where that overflows.
inline bool add_sizes(Index a, Index b, Index* sum) {
  return !__builtin_add_overflow(a, b, sum);
}
inline bool multiply_sizes(Index a, Index b, Index* product) {
  return !__builtin_mul_overflow(a, b, product);
}

inline bool has_shape(const tensorflow::Tensor& tensor,
                      absl::Span<const Index> sizes) {
  bool same = tensor.dims() == static_cast<int>(sizes.size());
  for (int i = 0; same && i < tensor.dims(); ++i) {
    same = tensor.dim_size(i) == sizes[i];
  }
  return same;
}

// Requires a shape of an input; `words` says it with the names of the sizes,
// `because`, called on failure alone, what these were taken from.
template <class Because>
absl::Status require_shape(const tensorflow::Tensor& tensor, const char* name,
                           const char* words, absl::Span<const Index> expected,
                           const Because& because) {
  if (has_shape(tensor, expected)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " must have shape ", words, " = [", absl::StrJoin(expected, ","),
      "], got ", tensor.shape().DebugString(), because()));
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_TF_CONTEXT_H_
