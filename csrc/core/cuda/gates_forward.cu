// The elementwise part of a forward step. The formulas are cell_math.h's; here
// they meet rows, masks and the caller's arrays.
#include "core/cuda/grid.h"
#include "core/cuda/kernels.h"
#include "core/cuda/step.h"
#include "core/cuda/value.h"

namespace fused_rnn {
namespace cuda {
namespace {

// gx + gh + biases of a gate.
template <int N, class T>
FUSED_RNN_DEVICE Value<Compute<T>, N> pre_activation(const ForwardStep<T>& s,
                                                     int gate, Index b, int j) {
  using V = Value<Compute<T>, N>;
  V sum = load_or_zero<N>(row_or_null(s.gx[gate], b, j));
  if (s.bias[gate]) sum = sum + load<N>(s.bias[gate] + j);
  if (gate == kCandidate && s.shape.options.reset_after) return sum;
  if (s.recurrent_bias[gate]) sum = sum + load<N>(s.recurrent_bias[gate] + j);
  return sum + load_or_zero<N>(row_or_null(s.gh[gate], b, j));
}

// The new state, and all that is made of it.
template <int N, class T>
FUSED_RNN_DEVICE void put_state(const ForwardStep<T>& s, Index b, int j,
                                Value<Compute<T>, N> h) {
  store<N>(row_at(s.h_next, b, j), h);
  store_if<N>(row_or_null(s.state, b, j), h);
  for (int g = 0; g < kGates; ++g)
    if (s.dropped[g].data)
      store<N>(row_at(s.dropped[g], b, j),
               h * load<N>(row_at(s.dropout[g], b, j)));
}

template <int N, class T>
FUSED_RNN_DEVICE void put_masked(const ForwardStep<T>& s, Index b, int j) {
  using V = Value<Compute<T>, N>;
  put_state<N>(s, b, j, load_or_zero<N>(row_or_null(s.h_prev, b, j)));
  if (s.output.data) {
    const bool zero = s.shape.options.zero_output_for_mask;
    store<N>(row_at(s.output, b, j),
             load_or_zero<N>(zero ? nullptr
                                  : row_or_null(s.previous_output, b, j)));
  }
  for (const Rows<T>& reserve : s.reserve)
    store_if<N>(row_or_null(reserve, b, j), V(0));
}

template <int N, class T>
FUSED_RNN_KERNEL void forward_after(ForwardStep<T> s) {
  using V = Value<Compute<T>, N>;
  for_each_value<N>(s.shape.batch, s.shape.units, [&](Index b, int j) {
    if (!valid(s.shape, b)) return put_masked<N>(s, b, j);
    const V z = activate(s.shape.options.recurrent_activation,
                         pre_activation<N>(s, kUpdate, b, j));
    const V r = activate(s.shape.options.recurrent_activation,
                         pre_activation<N>(s, kReset, b, j));
    V gh = load_or_zero<N>(row_or_null(s.gh[kCandidate], b, j));
    if (s.recurrent_bias[kCandidate])
      gh = gh + load<N>(s.recurrent_bias[kCandidate] + j);
    const V c = activate(
        s.shape.options.activation,
        gru_candidate_after(pre_activation<N>(s, kCandidate, b, j), r, gh));
    const V h = gru_state(z, load_or_zero<N>(row_or_null(s.h_prev, b, j)), c);
    put_state<N>(s, b, j, h);
    store_if<N>(row_or_null(s.output, b, j), h);
    store_if<N>(row_or_null(s.reserve[kUpdate], b, j), z);
    store_if<N>(row_or_null(s.reserve[kReset], b, j), r);
    store_if<N>(row_or_null(s.reserve[kCandidate], b, j), c);
    store_if<N>(row_or_null(s.reserve[kRecurrentCandidate], b, j), gh);
  });
}

template <int N, class T>
FUSED_RNN_KERNEL void forward_before_gates(ForwardStep<T> s) {
  using V = Value<Compute<T>, N>;
  for_each_value<N>(s.shape.batch, s.shape.units, [&](Index b, int j) {
    // The product reads all rows; what it makes of this one, nobody does.
    if (!valid(s.shape, b)) return store<N>(row_at(s.reset_h, b, j), V(0));
    const V z = activate(s.shape.options.recurrent_activation,
                         pre_activation<N>(s, kUpdate, b, j));
    const V r = activate(s.shape.options.recurrent_activation,
                         pre_activation<N>(s, kReset, b, j));
    V reset_h = r * load_or_zero<N>(row_or_null(s.h_prev, b, j));
    if (s.dropout[kCandidate].data)
      reset_h = reset_h * load<N>(row_at(s.dropout[kCandidate], b, j));
    store<N>(row_at(s.z, b, j), z);
    store<N>(row_at(s.reset_h, b, j), reset_h);
    store_if<N>(row_or_null(s.reserve[kUpdate], b, j), z);
    store_if<N>(row_or_null(s.reserve[kReset], b, j), r);
  });
}

template <int N, class T>
FUSED_RNN_KERNEL void forward_before_candidate(ForwardStep<T> s) {
  using V = Value<Compute<T>, N>;
  for_each_value<N>(s.shape.batch, s.shape.units, [&](Index b, int j) {
    if (!valid(s.shape, b)) return put_masked<N>(s, b, j);
    const V c = activate(s.shape.options.activation,
                         pre_activation<N>(s, kCandidate, b, j));
    const V h = gru_state(load<N>(row_at(s.z, b, j)),
                          load_or_zero<N>(row_or_null(s.h_prev, b, j)), c);
    put_state<N>(s, b, j, h);
    store_if<N>(row_or_null(s.output, b, j), h);
    store_if<N>(row_or_null(s.reserve[kCandidate], b, j), c);
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
