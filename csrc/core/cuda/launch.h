// How kernels are written and launched: one wrapper, for nvcc and for the
// emulation, in which a plain C++ compiler compiles the same .cu files.
#ifndef FUSED_RNN_CORE_CUDA_LAUNCH_H_
#define FUSED_RNN_CORE_CUDA_LAUNCH_H_

#include "core/cuda/gru_cuda.h"

#if defined(__CUDACC__)

#include <cuda_runtime.h>

// A kernel of blocks of so many threads, of which so many are to fit on a
// processor: what bounds its registers.
#define FUSED_RNN_KERNEL(threads, blocks) \
  __global__ void __launch_bounds__(threads, blocks)
#define FUSED_RNN_DEVICE __device__ __forceinline__

namespace fused_rnn {
namespace cuda {

// Launches a kernel that takes one struct.
template <class Arguments>
Error launch(const char* name, void (*kernel)(Arguments), dim3 grid, dim3 block,
             void* stream, const Arguments& arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = static_cast<cudaStream_t>(stream);
  const cudaError_t result = cudaLaunchKernelEx(&config, kernel, arguments);
  if (result == cudaSuccess) return {};
  return {name, cudaGetErrorString(result)};
}

}  // namespace cuda
}  // namespace fused_rnn

#else
#include "core/cuda/emulation.h"
#endif

#endif  // FUSED_RNN_CORE_CUDA_LAUNCH_H_
