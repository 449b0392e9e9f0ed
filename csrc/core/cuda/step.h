// What the gate kernels of both directions share.
#ifndef FUSED_RNN_CORE_CUDA_STEP_H_
#define FUSED_RNN_CORE_CUDA_STEP_H_

#include "core/cuda/cells.h"
#include "core/cuda/grid.h"
#include "core/cuda/kernels.h"
#include "core/cuda/value.h"

namespace fused_rnn {
namespace cuda {

// Six blocks on a processor leave a thread 80 registers, with which none of the
// kernels spills.
#define FUSED_RNN_STEP_KERNEL FUSED_RNN_KERNEL(kColumns* kRows, 6)

FUSED_RNN_DEVICE bool valid(const StepShape& s, Index b) {
  return !s.mask || s.mask[b * s.mask_row] != 0;
}

// sum + p∘v, where there is a peephole.
template <int N, class T>
FUSED_RNN_DEVICE Value<Compute<T>, N> add_peephole(const T* p, int j,
                                                   Value<Compute<T>, N> v,
                                                   Value<Compute<T>, N> sum) {
  return p ? fma(load<N>(p + j), v, sum) : sum;
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

// Defines FUNCTION(const Step<T>&, int stage, void* stream) by the kernel that
// the cell has for the stage.
#define FUSED_RNN_DEFINE_STAGES(FUNCTION, KERNEL, Step)                      \
  template <class T>                                                         \
  Error FUNCTION(const Step<T>& s, int stage, void* stream) {                \
    return with_stage(s.shape.options, stage, [&](auto cell, auto at) {      \
      using Cell = decltype(cell);                                           \
      constexpr int kStage = decltype(at)::value;                            \
      return launch_step(#KERNEL, KERNEL<Cell, kStage, kWide<T>, T>,         \
                         KERNEL<Cell, kStage, 1, T>, s.shape, stream, s);    \
    });                                                                      \
  }                                                                          \
  template Error FUNCTION(const Step<float>&, int, void*);                   \
  template Error FUNCTION(const Step<double>&, int, void*);                  \
  template Error FUNCTION(const Step<Half>&, int, void*);                    \
  template Error FUNCTION(const Step<BFloat16>&, int, void*);

#endif  // FUSED_RNN_CORE_CUDA_STEP_H_
