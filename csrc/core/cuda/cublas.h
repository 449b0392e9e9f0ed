// The matrix product by cuBLAS, opened at run time.
#ifndef FUSED_RNN_CORE_CUDA_CUBLAS_H_
#define FUSED_RNN_CORE_CUDA_CUBLAS_H_

#include "core/cuda/rnn_cuda.h"

namespace fused_rnn {
namespace cuda {

// What cuBLAS recommends for the GPUs that want most (Hopper); with less it
// leaves out some of its kernels.
constexpr std::size_t kCublasBytes = std::size_t{32} << 20;

// See Machine::begin and end in core/cuda/library.h.
Error begin_cublas(void* stream, void* workspace, bool tf32, Device* device);
void end_cublas(const Device& device);

}  // namespace cuda
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CUDA_CUBLAS_H_
