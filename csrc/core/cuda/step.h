// What the gate kernels of both directions share.
#ifndef FUSED_RNN_CORE_CUDA_STEP_H_
#define FUSED_RNN_CORE_CUDA_STEP_H_

#include "core/cuda/grid.h"
#include "core/cuda/kernels.h"

namespace fused_rnn {
namespace cuda {

// Six blocks on a processor leave a thread 80 registers, with which none of the
// kernels spills.
#define FUSED_RNN_STEP_KERNEL FUSED_RNN_KERNEL(kColumns* kRows, 6)

FUSED_RNN_DEVICE bool valid(const StepShape& s, Index b) {
  return !s.mask || s.mask[b * s.mask_row] != 0;
}

// Launches the wide kernel where rows allow it.
template <class Step>
Error launch_step(const char* name, void (*wide)(Step), void (*narrow)(Step),
                  const StepShape& shape, void* stream, const Step& step) {
  const int lanes = shape.wide ? 16 / static_cast<int>(sizeof(typename Step::C))
                               : 1;
  return launch(name, shape.wide ? wide : narrow,
                grid_of(shape.batch, shape.units, lanes), block_of_rows(),
                stream, step);
}

}  // namespace cuda
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CUDA_STEP_H_
