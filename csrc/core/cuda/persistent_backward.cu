// All backward steps in one launch.
#include "core/cuda/cells.h"
#include "core/cuda/grid.h"
#include "core/cuda/persistent_block.h"
#include "core/cuda/step_backward.h"

namespace fused_rnn {
namespace cuda {
namespace {

// To the step before.
template <class Cell, class T>
FUSED_RNN_DEVICE void go_back(const PersistentBackward<T>& p,
                              BackwardStep<T>* s) {
  --s->step;
  if (s->shape.mask) s->shape.mask -= p.mask_step;
  if (s->previous) s->previous -= s->shape.batch;
  if (s->d_output.data) s->d_output.data -= p.d_output_step;
  for (int i = 0; i < Cell::kReserve; ++i) {
    if (s->reserve[i].data) s->reserve[i].data -= p.reserve_step[i];
    if (s->d_reserve[i].data) s->d_reserve[i].data -= p.d_reserve_step[i];
  }
  for (int g = 0; g < Cell::kGradients; ++g)
    s->d_gates[g].data -= p.d_gates_step[g];
}

template <class Cell, class T>
FUSED_RNN_PERSISTENT_KERNEL persistent_backward(PersistentBackward<T> p) {
  using C = Compute<T>;
  using V = Value<C, 1>;
  BackwardStep<T> s = p.last;
  const int units = s.shape.units;
  const Index size = static_cast<Index>(s.shape.batch) * units;
  PersistentBlock<Cell::kGates, T> block(p.plan, s.shape.batch, units,
                                         p.arrived);
  block.template take_weights<true>(p.recurrent);
  // What gates of the step after hand on; nothing at first.
  Rows<const C> later[Cell::kGates];
  const auto from_later = [&](auto body) {
    block.template sum_of<StageGates<Cell, 0>>(
        later, [&](Index b, int j, V sum) {
          body(b, j, load<1>(row_at(s.carry_in, b, j)) + sum);
        });
  };
  for (int i = 0; i < p.steps; ++i) {
    for (int g = 0; g < Cell::kGates; ++g) {
      const bool beside = Cell::kResetsAfter && g == kCandidate;
      s.operand[beside ? kRecurrentCandidate : g] = {
          p.operand[i & 1] + g * size, units};
    }
    from_later([&](Index b, int j, V d) {
      backward_at<1>(Cell(), Stage<0>(), s, b, j, d);
    });
    for (int g = 0; g < Cell::kGates; ++g)
      later[g] = {p.operand[i & 1] + g * size, units};
    if constexpr (Cell::kStages == 2) {
      block.meet();
      block.template sum_of<StageGates<Cell, 1>>(
          later, [&](Index b, int j, V d_reset_h) {
            backward_at<1>(Cell(), Stage<1>(), s, b, j, d_reset_h);
          });
    }
    block.meet();
    go_back<Cell>(p, &s);
  }
  if (!p.d_h0.data && !p.d_c0.data) return;
  from_later([&](Index b, int j, V d) {
    store_if<1>(row_or_null(p.d_h0, b, j), d);
    if constexpr (Cell::kHasCellState)
      store_if<1>(row_or_null(p.d_c0, b, j), load<1>(row_at(s.d_cell, b, j)));
  });
}

}  // namespace

template <class T>
Error launch_persistent_backward(const PersistentBackward<T>& p, void* stream) {
  return with_cell(p.last.shape.options, [&](auto cell) {
    return launch_persistent("persistent_backward",
                             persistent_backward<decltype(cell), T>, p, stream);
  });
}
template Error launch_persistent_backward(const PersistentBackward<float>&,
                                          void*);
template Error launch_persistent_backward(const PersistentBackward<double>&,
                                          void*);
template Error launch_persistent_backward(const PersistentBackward<Half>&,
                                          void*);
template Error launch_persistent_backward(const PersistentBackward<BFloat16>&,
                                          void*);

}  // namespace cuda
}  // namespace fused_rnn
