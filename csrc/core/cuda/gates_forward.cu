// The elementwise part of a forward step.
#include "core/cuda/step_forward.h"

namespace fused_rnn {
namespace cuda {
namespace {

template <class Cell, int kStage, int N, class T>
FUSED_RNN_STEP_KERNEL forward_gates(ForwardStep<T> s) {
  using Gates = StageGates<Cell, kStage>;
  for_each_value<N>(s.shape.batch, s.shape.units, [&](Index b, int j) {
    Value<Compute<T>, N> gh[Gates::kEnd - Gates::kFrom];
    for (int g = Gates::kFrom; g < Gates::kEnd; ++g)
      gh[g - Gates::kFrom] = load_or_zero<N>(row_or_null(s.gh[g], b, j));
    forward_at<N>(Cell(), Stage<kStage>(), s, b, j, gh);
  });
}

}  // namespace

FUSED_RNN_DEFINE_STAGES(launch_forward, forward_gates, ForwardStep)

}  // namespace cuda
}  // namespace fused_rnn
