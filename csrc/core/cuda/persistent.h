// One launch for all steps of a sequence, where a launch a step would cost more
// than the step: every block keeps the recurrent weights of some units in
// shared memory, and all blocks meet once a step (twice with reset before).
//
// Taken only if the environment variable FUSED_RNN_CUDA_PERSISTENT is set and
// not 0; the steps of rnn_forward.cc and rnn_backward.cc are the reference.
#ifndef FUSED_RNN_CORE_CUDA_PERSISTENT_H_
#define FUSED_RNN_CORE_CUDA_PERSISTENT_H_

#include "core/cuda/kernels.h"

namespace fused_rnn {
namespace cuda {

// How a grid shares a call. A thread has a unit of its block, a row of a tile,
// and every `splits`-th term of its sums.
struct PersistentPlan {
  int blocks = 0;  // 0: the call is not for this kernel
  int threads = 0;
  int units = 0;   // of a block
  int rows = 0;    // of a tile
  int splits = 0;  // a power of two
  std::size_t shared_bytes = 0;
  explicit operator bool() const { return blocks > 0; }
};
// By the environment, the sizes and what the current device offers.
template <class T>
PersistentPlan plan_persistent(const RnnShape&, const RnnOptions&,
                               bool dropout);

template <class T>
struct PersistentForward {
  using C = Compute<T>;
  PersistentPlan plan;
  int steps = 0;
  ForwardStep<T> first;       // no gh, no dropout, no state
  Rows<T> state, cell_state;  // of the last step
  Rows<const T> recurrent[kMaxGates];
  Rows<C> h[2];  // what the first step's h_next and those after it take in turn
  unsigned* arrived = nullptr;  // scratch
  // From a step to the next.
  Index mask_step = 0, gx_step = 0, output_step = 0;
  Index reserve_step[kMaxReserve] = {};
};
template <class T>
Error launch_persistent_forward(const PersistentForward<T>&, void* stream);

template <class T>
struct PersistentBackward {
  using C = Compute<T>;
  PersistentPlan plan;
  int steps = 0;
  BackwardStep<T> last;  // of the last step: the first to run; no dropout
  Rows<const T> recurrent[kMaxGates];
  C* operand[2] = {};  // [gates, B, H], in turn
  Rows<T> d_h0, d_c0;
  unsigned* arrived = nullptr;  // scratch
  // From a step to the next, in time.
  Index mask_step = 0, d_output_step = 0;
  Index reserve_step[kMaxReserve] = {}, d_reserve_step[kMaxReserve] = {};
  Index d_gates_step[kMaxGates] = {};
};
template <class T>
Error launch_persistent_backward(const PersistentBackward<T>&, void* stream);

// Sets the counter of arrivals to 0.
Error launch_clear(unsigned* arrived, void* stream);

}  // namespace cuda
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CUDA_PERSISTENT_H_
