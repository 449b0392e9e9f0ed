// All backward steps in one launch.
#include "core/cuda/grid.h"
#include "core/cuda/persistent_block.h"
#include "core/cuda/step_backward.h"

namespace fused_rnn {
namespace cuda {
namespace {

// To the step before.
template <class T>
FUSED_RNN_DEVICE void go_back(const PersistentBackward<T>& p,
                              BackwardStep<T>* s) {
  --s->step;
  if (s->shape.mask) s->shape.mask -= p.mask_step;
  if (s->previous) s->previous -= s->shape.batch;
  if (s->d_output.data) s->d_output.data -= p.d_output_step;
  for (int i = 0; i < kGruReserve; ++i) {
    if (s->reserve[i].data) s->reserve[i].data -= p.reserve_step[i];
    if (s->d_gates[i].data) s->d_gates[i].data -= p.d_gates_step[i];
    if (i < kGruGates && s->d_reserve[i].data)
      s->d_reserve[i].data -= p.d_reserve_step[i];
  }
}

template <class T>
FUSED_RNN_PERSISTENT_KERNEL persistent_backward(PersistentBackward<T> p) {
  using C = Compute<T>;
  using V = Value<C, 1>;
  BackwardStep<T> s = p.last;
  const int units = s.shape.units;
  const bool after = s.shape.options.reset_after;
  const Index size = static_cast<Index>(s.shape.batch) * units;
  PersistentBlock<T> block(p.plan, s.shape.batch, units, p.arrived);
  block.template take_weights<true>(p.recurrent);
  // What gates of the step after hand on; nothing at first.
  Rows<const C> later[kGruGates];
  const auto from_later = [&](auto body) {
    const auto with_carry = [&](Index b, int j, V sum) {
      body(b, j, load<1>(row_at(s.carry_in, b, j)) + sum);
    };
    if (after)
      block.template sum_of<kUpdate, kGruGates>(later, with_carry);
    else
      block.template sum_of<kUpdate, kCandidate>(later, with_carry);
  };
  for (int i = 0; i < p.steps; ++i) {
    C* const operand = p.operand[i & 1];
    for (int g = 0; g < kGruGates; ++g)
      s.operand[after && g == kCandidate ? kRecurrentCandidate : g] = {
          operand + g * size, units};
    if (after) {
      from_later([&](Index b, int j, V d) {
        backward_blend_at<true, 1>(s, b, j, d);
      });
    } else {
      from_later([&](Index b, int j, V d) {
        backward_blend_at<false, 1>(s, b, j, d);
      });
      block.meet();
      Rows<const C> candidate[kGruGates];
      candidate[kCandidate] = {operand + kCandidate * size, units};
      block.template sum_of<kCandidate, kGruGates>(
          candidate, [&](Index b, int j, V d_reset_h) {
            backward_before_reset_at<1>(s, b, j, d_reset_h);
          });
    }
    for (int g = 0; g < kGruGates; ++g) later[g] = {operand + g * size, units};
    block.meet();
    go_back(p, &s);
  }
  if (!p.d_h0.data) return;
  from_later([&](Index b, int j, V d) {
    store<1>(row_at(p.d_h0, b, j), d);
  });
}

}  // namespace

template <class T>
Error launch_persistent_backward(const PersistentBackward<T>& p, void* stream) {
  return launch_persistent("persistent_backward", persistent_backward<T>, p,
                           stream);
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
