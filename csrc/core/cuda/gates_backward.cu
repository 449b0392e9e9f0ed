// The elementwise part of a backward step.
#include "core/cuda/step_backward.h"

namespace fused_rnn {
namespace cuda {
namespace {

// What reaches h_t from later steps.
template <int N, class T>
FUSED_RNN_DEVICE Value<Compute<T>, N> from_later(const BackwardStep<T>& s,
                                                 Index b, int j) {
  Value<Compute<T>, N> d = load<N>(row_at(s.carry_in, b, j));
  for (int g = 0; g < kGruGates; ++g)
    if (s.product[g].data)
      d = fma(load<N>(row_at(s.product[g], b, j)),
              load<N>(row_at(s.dropout[g], b, j)), d);
  return d;
}

template <int N, class T>
FUSED_RNN_STEP_KERNEL backward_after(BackwardStep<T> s) {
  for_each_value<N>(s.shape.batch, s.shape.units, [&](Index b, int j) {
    backward_blend_at<true, N>(s, b, j, from_later<N>(s, b, j));
  });
}

template <int N, class T>
FUSED_RNN_STEP_KERNEL backward_before_candidate(BackwardStep<T> s) {
  for_each_value<N>(s.shape.batch, s.shape.units, [&](Index b, int j) {
    backward_blend_at<false, N>(s, b, j, from_later<N>(s, b, j));
  });
}

template <int N, class T>
FUSED_RNN_STEP_KERNEL backward_before_reset(BackwardStep<T> s) {
  for_each_value<N>(s.shape.batch, s.shape.units, [&](Index b, int j) {
    backward_before_reset_at<N>(s, b, j, load<N>(row_at(s.d_reset_h, b, j)));
  });
}

template <class T>
struct BackwardState : BackwardStep<T> {
  Rows<T> to;
};

template <int N, class T>
FUSED_RNN_STEP_KERNEL backward_state(BackwardState<T> s) {
  for_each_value<N>(s.shape.batch, s.shape.units, [&](Index b, int j) {
    store<N>(row_at(s.to, b, j), from_later<N>(s, b, j));
  });
}

}  // namespace

#define FUSED_RNN_DEFINE(KERNEL)                                            \
  template <class T>                                                        \
  Error launch_##KERNEL(const BackwardStep<T>& s, void* stream) {           \
    return launch_step(#KERNEL, KERNEL<kWide<T>, T>, KERNEL<1, T>, s.shape, \
                       stream, s);                                          \
  }                                                                         \
  template Error launch_##KERNEL(const BackwardStep<float>&, void*);        \
  template Error launch_##KERNEL(const BackwardStep<double>&, void*);       \
  template Error launch_##KERNEL(const BackwardStep<Half>&, void*);         \
  template Error launch_##KERNEL(const BackwardStep<BFloat16>&, void*);
FUSED_RNN_DEFINE(backward_after)
FUSED_RNN_DEFINE(backward_before_candidate)
FUSED_RNN_DEFINE(backward_before_reset)
#undef FUSED_RNN_DEFINE

template <class T>
Error launch_backward_state(const BackwardStep<T>& s, Rows<T> to,
                            void* stream) {
  return launch_step("backward_state", backward_state<kWide<T>, T>,
                     backward_state<1, T>, s.shape, stream,
                     BackwardState<T>{s, to});
}
template Error launch_backward_state(const BackwardStep<float>&, Rows<float>,
                                     void*);
template Error launch_backward_state(const BackwardStep<double>&, Rows<double>,
                                     void*);
template Error launch_backward_state(const BackwardStep<Half>&, Rows<Half>,
                                     void*);
template Error launch_backward_state(const BackwardStep<BFloat16>&,
                                     Rows<BFloat16>, void*);

}  // namespace cuda
}  // namespace fused_rnn
