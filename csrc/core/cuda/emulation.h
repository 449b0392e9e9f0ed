// What launch.h offers, on a CPU: a grid runs block by block, thread by thread,
// inside the launch. For tests of kernels where there is no GPU.
#ifndef FUSED_RNN_CORE_CUDA_EMULATION_H_
#define FUSED_RNN_CORE_CUDA_EMULATION_H_

#include "core/cuda/gru_cuda.h"

#define FUSED_RNN_KERNEL(threads, blocks) void
#define FUSED_RNN_DEVICE inline

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

namespace fused_rnn {
namespace cuda {

inline thread_local dim3 gridDim, blockDim, blockIdx, threadIdx;

// How often a kernel was launched, and on which stream the last one was.
struct Launches {
  Index count = 0;
  void* stream = nullptr;
};
inline thread_local Launches launches;

template <class Arguments>
Error launch(const char* name, void (*kernel)(Arguments), dim3 grid, dim3 block,
             void* stream, const Arguments& arguments) {
  // The limits of every GPU that CUDA 12 and 13 know.
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 ||
      grid.z > 65535 || block.x * block.y * block.z > 1024)
    return {name, "invalid configuration argument"};
  static_assert(sizeof(Arguments) <= 4096);
  ++launches.count;
  launches.stream = stream;
  gridDim = grid;
  blockDim = block;
  for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x)
      for (threadIdx.y = 0; threadIdx.y < block.y; ++threadIdx.y)
        for (threadIdx.x = 0; threadIdx.x < block.x; ++threadIdx.x)
          kernel(arguments);
  return {};
}

}  // namespace cuda
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CUDA_EMULATION_H_
