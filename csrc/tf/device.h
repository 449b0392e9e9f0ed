// What a kernel runs on: how it calls the core, and the little else that is not
// the same everywhere. Kernels are templates of one of these.
#ifndef FUSED_RNN_TF_DEVICE_H_
#define FUSED_RNN_TF_DEVICE_H_

#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "core/rnn.h"
#include "core/isa.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/context.h"
#if defined(FUSED_RNN_CUDA)
#include "tf/gpu.h"
#endif

namespace fused_rnn {

struct CpuDevice {
  // A FUSED_RNN_ISA that names no instruction set of this processor stops the
  // graph here rather than at some later result.
  static absl::Status check() {
    const std::string error = isa_error();
    if (error.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(error);
  }

  // The intra-op pool of the op's device. The calling thread works too, so that
  // a pool of one leaves nothing to schedule.
  static Threads threads_of(tensorflow::OpKernelContext* ctx) {
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
  static absl::Status run(tensorflow::OpKernelContext* ctx,
                          void (*function)(const Call&, const Threads&, void*),
                          const Call& call) {
    static_assert(kWorkspaceAlignment <=
                  tensorflow::Allocator::kAllocatorAlignment);
    const Threads threads = threads_of(ctx);
    const auto bytes =
        static_cast<std::int64_t>(workspace_bytes(call, threads));
    tensorflow::Tensor workspace;
    TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_UINT8,
                                          tensorflow::TensorShape({bytes}),
                                          &workspace));
    function(call, threads, workspace.data());
    return absl::OkStatus();
  }

  static absl::Status zero(tensorflow::OpKernelContext*, void* to,
                           std::size_t bytes) {
    if (bytes > 0) std::memset(to, 0, bytes);
    return absl::OkStatus();
  }

  // Rows of `width` bytes, `row` bytes apart in both.
  static absl::Status copy(tensorflow::OpKernelContext*, void* to,
                           const void* from, std::size_t row, std::size_t width,
                           std::size_t rows) {
    for (std::size_t i = 0; i < rows; ++i) {
      std::memcpy(static_cast<char*>(to) + i * row,
                  static_cast<const char*>(from) + i * row, width);
    }
    return absl::OkStatus();
  }
};

}  // namespace fused_rnn

// Registers a kernel template of device and element type for all of them, or
// for a CPU only.
#define FUSED_RNN_REGISTER(NAME, KERNEL) \
  FUSED_RNN_REGISTER_CPU(NAME, KERNEL)   \
  FUSED_RNN_REGISTER_GPU(NAME, KERNEL)
#define FUSED_RNN_REGISTER_CPU(NAME, KERNEL) \
  FUSED_RNN_REGISTER_TYPES(NAME, KERNEL, tensorflow::DEVICE_CPU, CpuDevice)
#define FUSED_RNN_REGISTER_TYPES(NAME, KERNEL, PLACE, DEVICE)     \
  FUSED_RNN_REGISTER_TYPE(NAME, KERNEL, PLACE, DEVICE, float)        \
  FUSED_RNN_REGISTER_TYPE(NAME, KERNEL, PLACE, DEVICE, double)       \
  FUSED_RNN_REGISTER_TYPE(NAME, KERNEL, PLACE, DEVICE, Eigen::half)  \
  FUSED_RNN_REGISTER_TYPE(NAME, KERNEL, PLACE, DEVICE, Eigen::bfloat16)
#define FUSED_RNN_REGISTER_TYPE(NAME, KERNEL, PLACE, DEVICE, T)     \
  REGISTER_KERNEL_BUILDER(                                          \
      Name(NAME).Device(PLACE).TypeConstraint<T>("T"), KERNEL<DEVICE, T>);

// Registers a kernel over TensorFlow's own of that name and type: a higher
// priority takes over existing graphs.
#define FUSED_RNN_TAKE_OVER(NAME, KERNEL, T) \
  FUSED_RNN_TAKE_OVER_CPU(NAME, KERNEL, T)   \
  FUSED_RNN_TAKE_OVER_GPU(NAME, KERNEL, T)
#define FUSED_RNN_TAKE_OVER_CPU(NAME, KERNEL, T) \
  FUSED_RNN_TAKE_OVER_ON(NAME, KERNEL, tensorflow::DEVICE_CPU, CpuDevice, T)
#define FUSED_RNN_TAKE_OVER_ON(NAME, KERNEL, PLACE, DEVICE, T) \
  REGISTER_KERNEL_BUILDER(                                     \
      Name(NAME).Device(PLACE).TypeConstraint<T>("T").Priority(1), \
      KERNEL<DEVICE, T>);

#if defined(FUSED_RNN_CUDA)
#define FUSED_RNN_REGISTER_GPU(NAME, KERNEL) \
  FUSED_RNN_REGISTER_TYPES(NAME, KERNEL, tensorflow::DEVICE_GPU, GpuDevice)
#define FUSED_RNN_TAKE_OVER_GPU(NAME, KERNEL, T) \
  FUSED_RNN_TAKE_OVER_ON(NAME, KERNEL, tensorflow::DEVICE_GPU, GpuDevice, T)
#else
#define FUSED_RNN_REGISTER_GPU(NAME, KERNEL)
#define FUSED_RNN_TAKE_OVER_GPU(NAME, KERNEL, T)
#endif

#endif  // FUSED_RNN_TF_DEVICE_H_
