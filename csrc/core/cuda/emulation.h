// What launch.h offers, on a CPU: a grid runs block by block, thread by thread,
// inside the launch. For tests of kernels where there is no GPU. Included by
// launch.h only.
#ifndef FUSED_RNN_CORE_CUDA_EMULATION_H_
#define FUSED_RNN_CORE_CUDA_EMULATION_H_

#include <pthread.h>

#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "core/cuda/rnn_cuda.h"

#define FUSED_RNN_KERNEL(threads, blocks) void
#define FUSED_RNN_DEVICE inline

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

namespace fused_rnn {
namespace cuda {

inline thread_local dim3 gridDim, blockDim, blockIdx, threadIdx;

// How often kernels were launched, and what a test asks of them.
struct Launches {
  void* stream = nullptr;  // where all of them belong
  Index failing = -1;      // the one that fails
  Index count = 0;
  Index cooperative = 0;  // of them
  Index elsewhere = 0;    // on another stream
};
inline thread_local Launches launches;

inline Error start_launch(const char* name, void* stream) {
  if (launches.count == launches.failing) return {name, "as asked"};
  ++launches.count;
  if (stream != launches.stream) ++launches.elsewhere;
  return {};
}

template <class Arguments>
Error launch(const char* name, void (*kernel)(Arguments), dim3 grid, dim3 block,
             void* stream, const Arguments& arguments) {
  // The limits of every GPU that CUDA 12 and 13 know.
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 ||
      grid.z > 65535 || block.x * block.y * block.z > 1024)
    return {name, "invalid configuration argument"};
  static_assert(sizeof(Arguments) <= 4096);
  FUSED_RNN_TRY(start_launch(name, stream));
  gridDim = grid;
  blockDim = block;
  for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x)
      for (threadIdx.y = 0; threadIdx.y < block.y; ++threadIdx.y)
        for (threadIdx.x = 0; threadIdx.x < block.x; ++threadIdx.x)
          kernel(arguments);
  return {};
}

inline Index opaque(Index i) { return i; }

// ---- Blocks that wait for each other: each of their threads is a thread of
// the process, so that ThreadSanitizer sees where a barrier is missing.

// Few, since they are real; settable, since a GPU may offer anything.
inline CooperativeLimits emulated_limits{3, 16, 64 << 10};
inline CooperativeLimits cooperative_limits() { return emulated_limits; }

struct EmulatedBlock {
  pthread_barrier_t barrier;
  std::unique_ptr<char, void (*)(void*)> shared{nullptr, std::free};
};
inline thread_local EmulatedBlock* emulated_block = nullptr;

inline char* shared_memory() { return emulated_block->shared.get(); }
inline void block_barrier() { pthread_barrier_wait(&emulated_block->barrier); }
inline void add_one_release(unsigned* count) {
  __atomic_fetch_add(count, 1, __ATOMIC_RELEASE);
}
inline unsigned load_acquire(unsigned* count) {
  std::this_thread::yield();
  return __atomic_load_n(count, __ATOMIC_ACQUIRE);
}

template <class Arguments>
Error launch_cooperative(const char* name, void (*kernel)(Arguments),
                         int blocks, int threads, std::size_t shared_bytes,
                         void* stream, const Arguments& arguments) {
  static_assert(sizeof(Arguments) <= 4096);
  if (blocks < 1 || blocks > emulated_limits.blocks ||
      threads > emulated_limits.threads ||
      shared_bytes > emulated_limits.shared_bytes)
    return {name, "too many blocks in cooperative launch"};
  FUSED_RNN_TRY(start_launch(name, stream));
  ++launches.cooperative;
  std::vector<EmulatedBlock> states(static_cast<std::size_t>(blocks));
  std::vector<std::thread> team;
  for (EmulatedBlock& state : states) {
    pthread_barrier_init(&state.barrier, nullptr,
                         static_cast<unsigned>(threads));
    void* memory = nullptr;
    if (posix_memalign(&memory, 16, shared_bytes + 1) != 0) std::abort();
    state.shared.reset(static_cast<char*>(memory));
    for (int t = 0; t < threads; ++t)
      team.emplace_back([&, t] {
        emulated_block = &state;
        gridDim.x = static_cast<unsigned>(blocks);
        blockDim.x = static_cast<unsigned>(threads);
        blockIdx.x = static_cast<unsigned>(&state - states.data());
        threadIdx.x = static_cast<unsigned>(t);
        gridDim.y = blockDim.y = 1;
        blockIdx.y = threadIdx.y = 0;
        kernel(arguments);
      });
  }
  for (std::thread& one : team) one.join();
  for (EmulatedBlock& state : states) pthread_barrier_destroy(&state.barrier);
  return {};
}

}  // namespace cuda
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CUDA_EMULATION_H_
