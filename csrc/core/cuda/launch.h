// How kernels are written and launched: one wrapper, for nvcc and for the
// emulation, in which a plain C++ compiler compiles the same .cu files.
#ifndef FUSED_RNN_CORE_CUDA_LAUNCH_H_
#define FUSED_RNN_CORE_CUDA_LAUNCH_H_

#include "core/cuda/rnn_cuda.h"

namespace fused_rnn {
namespace cuda {

// One block a processor.
struct CooperativeLimits {
  int blocks = 0;
  int threads = 256;
  std::size_t shared_bytes = 0;
};

}  // namespace cuda
}  // namespace fused_rnn

#if defined(__CUDACC__)

#include <cuda/atomic>
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

// Launches blocks of which all run at the same time, so that they may wait for
// each other, with so much shared memory each; or returns an error.
template <class Arguments>
Error launch_cooperative(const char* name, void (*kernel)(Arguments),
                         int blocks, int threads, std::size_t shared_bytes,
                         void* stream, const Arguments& arguments) {
  // More than 48 KB have to be asked for.
  cudaError_t result =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(shared_bytes));
  if (result == cudaSuccess) {
    cudaLaunchAttribute cooperative = {};
    cooperative.id = cudaLaunchAttributeCooperative;
    cooperative.val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(blocks));
    config.blockDim = dim3(static_cast<unsigned>(threads));
    config.dynamicSmemBytes = shared_bytes;
    config.stream = static_cast<cudaStream_t>(stream);
    config.attrs = &cooperative;
    config.numAttrs = 1;
    result = cudaLaunchKernelEx(&config, kernel, arguments);
  }
  if (result == cudaSuccess) return {};
  return {name, cudaGetErrorString(result)};
}

// What the current device offers to such a launch; no blocks if it has none.
inline CooperativeLimits cooperative_limits() {
  CooperativeLimits limits;
  int device = 0, cooperative = 0, processors = 0, shared = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch,
                             device) != cudaSuccess ||
      cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                             device) != cudaSuccess ||
      cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                             device) != cudaSuccess)
    return limits;
  if (!cooperative) return limits;
  limits.blocks = processors;
  limits.shared_bytes = static_cast<std::size_t>(shared);
  return limits;
}

// i, of which the compiler knows nothing. Of a loop's index it would make an
// address for each row that the body touches, and keep them all in registers.
FUSED_RNN_DEVICE Index opaque(Index i) {
  asm volatile("" : "+l"(i));
  return i;
}

FUSED_RNN_DEVICE char* shared_memory() {
  extern __shared__ __align__(16) char bytes[];
  return bytes;
}
FUSED_RNN_DEVICE void block_barrier() { __syncthreads(); }

using GridCounter =
    ::cuda::atomic_ref<unsigned, ::cuda::thread_scope_device>;
FUSED_RNN_DEVICE void add_one_release(unsigned* count) {
  GridCounter(*count).fetch_add(1, ::cuda::memory_order_release);
}
FUSED_RNN_DEVICE unsigned load_acquire(unsigned* count) {
  return GridCounter(*count).load(::cuda::memory_order_acquire);
}

}  // namespace cuda
}  // namespace fused_rnn

#else
#include "core/cuda/emulation.h"
#endif

#endif  // FUSED_RNN_CORE_CUDA_LAUNCH_H_
