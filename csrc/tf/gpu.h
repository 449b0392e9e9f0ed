// The device of kernels on an NVIDIA GPU. TensorFlow's side of it: stream,
// scratch, settings. Nothing here needs CUDA; the kernels are in a library that
// is opened when the first of them runs.
#ifndef FUSED_RNN_TF_GPU_H_
#define FUSED_RNN_TF_GPU_H_

#include <string>

#include "core/cuda/library.h"
#include "core/rnn.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/tensor_float_32_utils.h"
#include "tf/context.h"
#include "xla/stream_executor/stream.h"

namespace fused_rnn {

struct GpuDevice {
  // Kernels are made where a graph is placed, maybe long before one runs.
  static absl::Status check() { return absl::OkStatus(); }

  static absl::Status library(const cuda::Library** library) {
    std::string error;
    *library = cuda::open_library(&error);
    if (!*library) return absl::FailedPreconditionError(error);
    static const cuda::Error unavailable = (*library)->available();
    return status_of(unavailable);
  }

  static absl::Status status_of(const cuda::Error& error) {
    if (!error) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("fused_rnn on a GPU: ", error.where,
                                            ": ", error.what));
  }

  static void* stream_of(tensorflow::OpKernelContext* ctx) {
    return ctx->op_device_context()
        ->stream()
        ->platform_specific_handle()
        .stream;
  }

  // Enqueues a call of the core. The scratch goes back to the allocator, which
  // gives it only to what is enqueued later on the same stream.
  template <class Call>
  static absl::Status run(tensorflow::OpKernelContext* ctx,
                          void (*)(const Call&, const Threads&, void*),
                          const Call& call) {
    const cuda::Library* cuda;
    TF_RETURN_IF_ERROR(library(&cuda));
    const auto bytes =
        static_cast<std::int64_t>(cuda::call_bytes(*cuda, call));
    tensorflow::Tensor workspace;
    TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_UINT8,
                                          tensorflow::TensorShape({bytes}),
                                          &workspace));
    return status_of(cuda::run_call(*cuda, call, stream_of(ctx),
                                    tsl::tensor_float_32_execution_enabled(),
                                    workspace.data()));
  }

  static absl::Status zero(tensorflow::OpKernelContext* ctx, void* to,
                           std::size_t bytes) {
    if (bytes == 0) return absl::OkStatus();
    const cuda::Library* cuda;
    TF_RETURN_IF_ERROR(library(&cuda));
    return status_of(cuda->zero(to, bytes, stream_of(ctx)));
  }

  static absl::Status copy(tensorflow::OpKernelContext* ctx, void* to,
                           const void* from, std::size_t row, std::size_t width,
                           std::size_t rows) {
    const cuda::Library* cuda;
    TF_RETURN_IF_ERROR(library(&cuda));
    return status_of(
        cuda->copy(to, row, from, row, width, rows, stream_of(ctx)));
  }
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_TF_GPU_H_
