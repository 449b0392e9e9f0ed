// The elementwise part of a forward step.
#include "core/cuda/step_forward.h"

namespace fused_rnn {
namespace cuda {
namespace {

template <int N, class T>
FUSED_RNN_DEVICE Value<Compute<T>, N> product(const ForwardStep<T>& s, int gate,
                                              Index b, int j) {
  return load_or_zero<N>(row_or_null(s.gh[gate], b, j));
}

template <int N, class T>
FUSED_RNN_STEP_KERNEL forward_after(ForwardStep<T> s) {
  for_each_value<N>(s.shape.batch, s.shape.units, [&](Index b, int j) {
    const Value<Compute<T>, N> gh[kGruGates] = {product<N>(s, kUpdate, b, j),
                                             product<N>(s, kReset, b, j),
                                             product<N>(s, kCandidate, b, j)};
    forward_after_at<N>(s, b, j, gh);
  });
}

template <int N, class T>
FUSED_RNN_STEP_KERNEL forward_before_gates(ForwardStep<T> s) {
  for_each_value<N>(s.shape.batch, s.shape.units, [&](Index b, int j) {
    forward_before_gates_at<N>(s, b, j, product<N>(s, kUpdate, b, j),
                               product<N>(s, kReset, b, j));
  });
}

template <int N, class T>
FUSED_RNN_STEP_KERNEL forward_before_candidate(ForwardStep<T> s) {
  for_each_value<N>(s.shape.batch, s.shape.units, [&](Index b, int j) {
    forward_before_candidate_at<N>(s, b, j, product<N>(s, kCandidate, b, j));
  });
}

}  // namespace

#define FUSED_RNN_DEFINE(KERNEL)                                            \
  template <class T>                                                        \
  Error launch_##KERNEL(const ForwardStep<T>& s, void* stream) {            \
    return launch_step(#KERNEL, KERNEL<kWide<T>, T>, KERNEL<1, T>, s.shape, \
                       stream, s);                                          \
  }                                                                         \
  template Error launch_##KERNEL(const ForwardStep<float>&, void*);         \
  template Error launch_##KERNEL(const ForwardStep<double>&, void*);        \
  template Error launch_##KERNEL(const ForwardStep<Half>&, void*);          \
  template Error launch_##KERNEL(const ForwardStep<BFloat16>&, void*);
FUSED_RNN_DEFINE(forward_after)
FUSED_RNN_DEFINE(forward_before_gates)
FUSED_RNN_DEFINE(forward_before_candidate)
#undef FUSED_RNN_DEFINE

}  // namespace cuda
}  // namespace fused_rnn
