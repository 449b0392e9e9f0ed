// The contract of the core on a GPU: the calls of core/rnn.h with pointers to
// device memory, on a stream. Plain C++, for rooms that see no CUDA header.
//
// A call enqueues all it does on the stream. It allocates nothing, waits for
// nothing and makes no stream, event or handle, so that a CUDA graph can
// capture it. It reads its arguments before it returns.
//
// What differs from core/rnn.h:
// - Sizes but for the number of steps are below 2^31, steps times batch rows
//   too if there is a mask; else the call returns an error.
// - `packed` is not looked at.
// - Rows of weights and of their gradients do not overlap.
// - Same arguments, same bits: as far as the caller's matrix product holds it.
#ifndef FUSED_RNN_CORE_CUDA_RNN_CUDA_H_
#define FUSED_RNN_CORE_CUDA_RNN_CUDA_H_

#include "core/rnn.h"

namespace fused_rnn {
namespace cuda {

// Nothing if `what` is null. Both texts live as long as the process.
struct [[nodiscard]] Error {
  const char* where = nullptr;
  const char* what = nullptr;
  explicit operator bool() const { return what != nullptr; }
};

enum class Element { kFloat32, kFloat64, kFloat16, kBFloat16 };
template <class T>
struct ElementOf;
template <>
struct ElementOf<float> {
  static constexpr Element value = Element::kFloat32;
};
template <>
struct ElementOf<double> {
  static constexpr Element value = Element::kFloat64;
};
template <>
struct ElementOf<Half> {
  static constexpr Element value = Element::kFloat16;
};
template <>
struct ElementOf<BFloat16> {
  static constexpr Element value = Element::kBFloat16;
};

// c = a·b, or c += a·b. Row-major: element (i, k) of a at a[i * a_row + k], or
// with transpose_a at a[k * a_row + i]; b likewise. c has the type in which
// elements of a and b are computed, and sums are made in it. No size is 0.
struct Product {
  Element type = Element::kFloat32;  // of a and b
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  Index m = 0, n = 0, k = 0;  // c is [m, n]
  const void* a = nullptr;
  Index a_row = 0;
  const void* b = nullptr;
  Index b_row = 0;
  void* c = nullptr;
  Index c_row = 0;
};

// What the caller brings.
struct Device {
  void* stream = nullptr;  // a cudaStream_t
  // Enqueues a product on the stream. The core links no BLAS.
  Error (*product)(void* context, const Product&) = nullptr;
  void* context = nullptr;
};

// Bytes of device memory that a call needs, aligned to kWorkspaceAlignment.
template <class T>
std::size_t workspace_bytes(const RnnForward<T>&);
template <class T>
std::size_t workspace_bytes(const RnnBackward<T>&);
template <class T>
std::size_t workspace_bytes(const RnnInputGradient<T>&);
template <class T>
std::size_t workspace_bytes(const RnnWeightGradient<T>&);

template <class T>
Error rnn_forward(const RnnForward<T>&, const Device&, void* workspace);
template <class T>
Error rnn_backward(const RnnBackward<T>&, const Device&, void* workspace);
template <class T>
Error rnn_input_gradient(const RnnInputGradient<T>&, const Device&,
                         void* workspace);
template <class T>
Error rnn_weight_gradient(const RnnWeightGradient<T>&, const Device&,
                          void* workspace);

}  // namespace cuda
}  // namespace fused_rnn

// Returns from a function where a call of it fails.
#define FUSED_RNN_TRY(call)                                              \
  do {                                                                   \
    if (const ::fused_rnn::cuda::Error error = (call)) return error;     \
  } while (false)

#endif  // FUSED_RNN_CORE_CUDA_RNN_CUDA_H_
