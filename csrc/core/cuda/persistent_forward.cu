// All forward steps in one launch.
#include "core/cuda/grid.h"
#include "core/cuda/persistent_block.h"
#include "core/cuda/step_forward.h"

namespace fused_rnn {
namespace cuda {
namespace {

template <class T>
FUSED_RNN_DEVICE void advance(const PersistentForward<T>& p,
                              ForwardStep<T>* s) {
  if (s->shape.mask) s->shape.mask += p.mask_step;
  for (int g = 0; g < kGruGates; ++g)
    if (s->gx[g].data) s->gx[g].data += p.gx_step;
  s->previous_output = {s->output.data, s->output.row};
  if (s->output.data) s->output.data += p.output_step;
  for (int i = 0; i < kGruReserve; ++i)
    if (s->reserve[i].data) s->reserve[i].data += p.reserve_step[i];
  s->h_prev = {s->h_next.data, s->h_next.row};
}

template <class T>
FUSED_RNN_PERSISTENT_KERNEL persistent_forward(PersistentForward<T> p) {
  using V = Value<Compute<T>, 1>;
  ForwardStep<T> s = p.first;
  PersistentBlock<T> block(p.plan, s.shape.batch, s.shape.units, p.arrived);
  block.template take_weights<false>(p.recurrent);
  for (int i = 0; i < p.steps; ++i) {
    s.h_next = p.h[i & 1];
    if (i + 1 == p.steps) s.state = p.state;
    if (s.shape.options.reset_after) {
      block.template products_of<kUpdate, kGruGates>(
          s.h_prev, [&](Index b, int j, const V(&gh)[kGruGates]) {
            forward_after_at<1>(s, b, j, gh);
          });
    } else {
      block.template products_of<kUpdate, kCandidate>(
          s.h_prev, [&](Index b, int j, const V(&gh)[kCandidate]) {
            forward_before_gates_at<1>(s, b, j, gh[kUpdate], gh[kReset]);
          });
      block.meet();
      const Rows<const Compute<T>> reset_h{s.reset_h.data, s.reset_h.row};
      block.template products_of<kCandidate, kGruGates>(
          reset_h, [&](Index b, int j, const V(&gh)[1]) {
            forward_before_candidate_at<1>(s, b, j, gh[0]);
          });
    }
    if (i + 1 < p.steps) block.meet();
    advance(p, &s);
  }
}

}  // namespace

template <class T>
Error launch_persistent_forward(const PersistentForward<T>& p, void* stream) {
  return launch_persistent("persistent_forward", persistent_forward<T>, p,
                           stream);
}
template Error launch_persistent_forward(const PersistentForward<float>&,
                                         void*);
template Error launch_persistent_forward(const PersistentForward<double>&,
                                         void*);
template Error launch_persistent_forward(const PersistentForward<Half>&, void*);
template Error launch_persistent_forward(const PersistentForward<BFloat16>&,
                                         void*);

}  // namespace cuda
}  // namespace fused_rnn
