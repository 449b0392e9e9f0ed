// The elementwise part of a backward step.
#include "core/cuda/step_backward.h"

namespace fused_rnn {
namespace cuda {
namespace {

// What reaches h_t from later steps.
template <int N, class T>
FUSED_RNN_DEVICE Value<Compute<T>, N> from_later(const BackwardStep<T>& s,
                                                 int gates, Index b, int j) {
  Value<Compute<T>, N> d = load<N>(row_at(s.carry_in, b, j));
  for (int g = 0; g < gates; ++g)
    if (s.product[g].data)
      d = fma(load<N>(row_at(s.product[g], b, j)),
              load<N>(row_at(s.dropout[g], b, j)), d);
  return d;
}

template <class Cell, int kStage, int N, class T>
FUSED_RNN_STEP_KERNEL backward_gates(BackwardStep<T> s) {
  for_each_value<N>(s.shape.batch, s.shape.units, [&](Index b, int j) {
    const auto d = kStage == 0 ? from_later<N>(s, Cell::kGates, b, j)
                               : load<N>(row_at(s.d_reset_h, b, j));
    backward_at<N>(Cell(), Stage<kStage>(), s, b, j, d);
  });
}

template <class T>
struct BackwardStates : BackwardStep<T> {
  Rows<T> d_h0, d_c0;
};

template <int N, class T>
FUSED_RNN_STEP_KERNEL backward_states(BackwardStates<T> s) {
  for_each_value<N>(s.shape.batch, s.shape.units, [&](Index b, int j) {
    if (s.d_h0.data)
      store<N>(row_at(s.d_h0, b, j), from_later<N>(s, kMaxGates, b, j));
    if (s.d_c0.data)
      store<N>(row_at(s.d_c0, b, j), load<N>(row_at(s.d_cell, b, j)));
  });
}

}  // namespace

FUSED_RNN_DEFINE_STAGES(launch_backward, backward_gates, BackwardStep)

template <class T>
Error launch_backward_states(const BackwardStep<T>& s, Rows<T> d_h0,
                             Rows<T> d_c0, void* stream) {
  return launch_step("backward_states", backward_states<kWide<T>, T>,
                     backward_states<1, T>, s.shape, stream,
                     BackwardStates<T>{s, d_h0, d_c0});
}

template Error launch_backward_states(const BackwardStep<float>&, Rows<float>,
                                      Rows<float>, void*);
template Error launch_backward_states(const BackwardStep<double>&, Rows<double>,
                                      Rows<double>, void*);
template Error launch_backward_states(const BackwardStep<Half>&, Rows<Half>,
                                      Rows<Half>, void*);
template Error launch_backward_states(const BackwardStep<BFloat16>&,
                                      Rows<BFloat16>, Rows<BFloat16>, void*);

}  // namespace cuda
}  // namespace fused_rnn
