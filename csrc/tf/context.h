// What a TensorFlow kernel hands to the core: threads, scratch, element types.
#ifndef FUSED_RNN_TF_CONTEXT_H_
#define FUSED_RNN_TF_CONTEXT_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "core/gru.h"
#include "core/isa.h"
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

// The intra-op pool of the op's device. The calling thread works too, so that
// a pool of one leaves nothing to schedule.
inline Threads threads_of(tensorflow::OpKernelContext* ctx) {
  const auto* workers = ctx->device()->tensorflow_cpu_worker_threads();
  Threads threads;
  threads.count = workers->num_threads;
  auto* pool = workers->workers;
  threads.schedule = [pool](std::function<void()> closure) {
    pool->Schedule(std::move(closure));
  };
  return threads;
}

// Runs a call of the core on scratch from the op's allocator.
template <class Call>
absl::Status run(tensorflow::OpKernelContext* ctx,
                 void (*function)(const Call&, const Threads&, void*),
                 const Call& call) {
  static_assert(kWorkspaceAlignment <=
                tensorflow::Allocator::kAllocatorAlignment);
  const Threads threads = threads_of(ctx);
  const auto bytes = static_cast<std::int64_t>(workspace_bytes(call, threads));
  tensorflow::Tensor workspace;
  TF_RETURN_IF_ERROR(ctx->allocate_temp(
      tensorflow::DT_UINT8, tensorflow::TensorShape({bytes}), &workspace));
  function(call, threads, workspace.data());
  return absl::OkStatus();
}

// A FUSED_RNN_ISA that names no instruction set of this processor stops the
// graph here rather than at some later result.
inline void require_valid_isa(tensorflow::OpKernelConstruction* ctx) {
  const std::string error = isa_error();
  OP_REQUIRES(ctx, error.empty(), absl::InvalidArgumentError(error));
}

// a + b and a * b of sizes; false where that overflows.
inline bool add_sizes(Index a, Index b, Index* sum) {
  return !__builtin_add_overflow(a, b, sum);
}
inline bool multiply_sizes(Index a, Index b, Index* product) {
  return !__builtin_mul_overflow(a, b, product);
}

// Requires a shape of an input; `words` says it with the names of the sizes,
// `because`, called on failure alone, what these were taken from.
template <class Because>
absl::Status require_shape(const tensorflow::Tensor& tensor, const char* name,
                           const char* words, absl::Span<const Index> expected,
                           const Because& because) {
  bool same = tensor.dims() == static_cast<int>(expected.size());
  for (int i = 0; same && i < tensor.dims(); ++i) {
    same = tensor.dim_size(i) == expected[i];
  }
  if (same) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " must have shape ", words, " = [", absl::StrJoin(expected, ","),
      "], got ", tensor.shape().DebugString(), because()));
}

}  // namespace fused_rnn

// Registers a kernel template for every element type of ours.
#define FUSED_RNN_REGISTER_CPU(NAME, KERNEL)                        \
  FUSED_RNN_REGISTER_CPU_TYPE(NAME, KERNEL, float)                  \
  FUSED_RNN_REGISTER_CPU_TYPE(NAME, KERNEL, double)                 \
  FUSED_RNN_REGISTER_CPU_TYPE(NAME, KERNEL, Eigen::half)            \
  FUSED_RNN_REGISTER_CPU_TYPE(NAME, KERNEL, Eigen::bfloat16)
#define FUSED_RNN_REGISTER_CPU_TYPE(NAME, KERNEL, T)                \
  REGISTER_KERNEL_BUILDER(                                          \
      Name(NAME).Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), \
      KERNEL<T>);

#endif  // FUSED_RNN_TF_CONTEXT_H_
