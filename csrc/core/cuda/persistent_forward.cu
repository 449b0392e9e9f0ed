// All forward steps in one launch.
#include "core/cuda/cells.h"
#include "core/cuda/grid.h"
#include "core/cuda/persistent_block.h"
#include "core/cuda/step_forward.h"

namespace fused_rnn {
namespace cuda {
namespace {

template <class Cell, class T>
FUSED_RNN_DEVICE void advance(const PersistentForward<T>& p,
                              ForwardStep<T>* s) {
  if (s->shape.mask) s->shape.mask += p.mask_step;
  for (int g = 0; g < Cell::kGates; ++g)
    if (s->gx[g].data) s->gx[g].data += p.gx_step;
  s->previous_output = {s->output.data, s->output.row};
  if (s->output.data) s->output.data += p.output_step;
  for (int i = 0; i < Cell::kReserve; ++i)
    if (s->reserve[i].data) s->reserve[i].data += p.reserve_step[i];
  s->h_prev = {s->h_next.data, s->h_next.row};
  s->c_prev = {s->c_next.data, s->c_next.row};
}

template <class Cell, class T>
FUSED_RNN_PERSISTENT_KERNEL persistent_forward(PersistentForward<T> p) {
  using C = Compute<T>;
  ForwardStep<T> s = p.first;
  PersistentBlock<Cell::kGates, T> block(p.plan, s.shape.batch, s.shape.units,
                                         p.arrived);
  block.template take_weights<false>(p.recurrent);
  const auto run = [&](auto stage, Rows<const C> operand) {
    block.template products_of<StageGates<Cell, decltype(stage)::value>>(
        operand, [&](Index b, int j, const auto& gh) {
          forward_at<1>(Cell(), stage, s, b, j, gh);
        });
  };
  for (int i = 0; i < p.steps; ++i) {
    s.h_next = p.h[i & 1];
    if (i + 1 == p.steps) {
      s.state = p.state;
      s.cell_state = p.cell_state;
    }
    run(Stage<0>(), s.h_prev);
    if constexpr (Cell::kStages == 2) {
      block.meet();
      run(Stage<1>(), {s.reset_h.data, s.reset_h.row});
    }
    if (i + 1 < p.steps) block.meet();
    advance<Cell>(p, &s);
  }
}

}  // namespace

template <class T>
Error launch_persistent_forward(const PersistentForward<T>& p, void* stream) {
  return with_cell(p.first.shape.options, [&](auto cell) {
    return launch_persistent("persistent_forward",
                             persistent_forward<decltype(cell), T>, p, stream);
  });
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
