// The elementwise part of a backward step.
#include "core/cuda/grid.h"
#include "core/cuda/kernels.h"
#include "core/cuda/step.h"
#include "core/cuda/value.h"

namespace fused_rnn {
namespace cuda {
namespace {

// What reaches h_t from later steps.
template <int N, class T>
FUSED_RNN_DEVICE Value<Compute<T>, N> from_later(const BackwardStep<T>& s,
                                                 Index b, int j) {
  Value<Compute<T>, N> d = load<N>(row_at(s.carry_in, b, j));
  for (int g = 0; g < kGates; ++g)
    if (s.product[g].data)
      d = fma(load<N>(row_at(s.product[g], b, j)),
              load<N>(row_at(s.dropout[g], b, j)), d);
  return d;
}

template <int N, class T>
FUSED_RNN_DEVICE Value<Compute<T>, N> h_prev(const BackwardStep<T>& s, Index b,
                                             int j) {
  const Index t = s.previous ? s.previous[b] : s.step - 1;
  return load_or_zero<N>(t >= 0 ? s.outputs.data + t * s.outputs.step +
                                      b * s.outputs.row + j
                                : row_or_null(s.h0, b, j));
}

// Through a masked step the state's gradient passes, and no gate gets any.
template <int N, class T>
FUSED_RNN_DEVICE void pass_masked(const BackwardStep<T>& s, Index b, int j) {
  using V = Value<Compute<T>, N>;
  store<N>(row_at(s.carry, b, j), from_later<N>(s, b, j));
  if (s.output_carry.data && s.d_output.data)
    store<N>(row_at(s.output_carry, b, j),
             load<N>(row_at(s.output_carry, b, j)) +
                 load<N>(row_at(s.d_output, b, j)));
  for (const Rows<Compute<T>>& operand : s.operand)
    store_if<N>(row_or_null(operand, b, j), V(0));
  for (const Rows<T>& d_gate : s.d_gates)
    store_if<N>(row_or_null(d_gate, b, j), V(0));
}

// Both conventions meet here: what h_t = z∘h + (1−z)∘c hands to z̄, c̄ and h.
// kAfter adds the reset gate, which reset before can only do one product later.
template <bool kAfter, int N, class T>
FUSED_RNN_DEVICE void blend(const BackwardStep<T>& s, Index b, int j) {
  using V = Value<Compute<T>, N>;
  const GruOptions& options = s.shape.options;
  V d_h = from_later<N>(s, b, j) +
          load_or_zero<N>(row_or_null(s.d_output, b, j));
  if (s.output_carry.data) {
    d_h = d_h + load<N>(row_at(s.output_carry, b, j));
    store<N>(row_at(s.output_carry, b, j), V(0));
  }
  const V z = load<N>(row_at(s.reserve[kUpdate], b, j));
  const V c = load<N>(row_at(s.reserve[kCandidate], b, j));
  const auto part = gru_state_gradient(d_h, z, h_prev<N>(s, b, j), c);
  const V d_z =
      (part.z + load_or_zero<N>(row_or_null(s.d_reserve[kUpdate], b, j))) *
      activation_slope(options.recurrent_activation, z);
  const V d_c =
      (part.c + load_or_zero<N>(row_or_null(s.d_reserve[kCandidate], b, j))) *
      activation_slope(options.activation, c);
  store<N>(row_at(s.carry, b, j), part.h);
  store<N>(row_at(s.operand[kUpdate], b, j), d_z);
  if (kAfter) {
    const V r = load<N>(row_at(s.reserve[kReset], b, j));
    const V gh = load<N>(row_at(s.reserve[kRecurrentCandidate], b, j));
    const V d_r =
        fma(d_c, gh, load_or_zero<N>(row_or_null(s.d_reserve[kReset], b, j))) *
        activation_slope(options.recurrent_activation, r);
    const V d_gh = d_c * r;
    store<N>(row_at(s.operand[kReset], b, j), d_r);
    store<N>(row_at(s.operand[kRecurrentCandidate], b, j), d_gh);
    store<N>(row_at(s.d_gates[kReset], b, j), d_r);
    store<N>(row_at(s.d_gates[kRecurrentCandidate], b, j), d_gh);
  } else {
    store<N>(row_at(s.operand[kCandidate], b, j), d_c);
  }
  store<N>(row_at(s.d_gates[kUpdate], b, j), d_z);
  store<N>(row_at(s.d_gates[kCandidate], b, j), d_c);
}

template <int N, class T>
FUSED_RNN_KERNEL void backward_after(BackwardStep<T> s) {
  for_each_value<N>(s.shape.batch, s.shape.units, [&](Index b, int j) {
    if (!valid(s.shape, b)) return pass_masked<N>(s, b, j);
    blend<true, N>(s, b, j);
  });
}

template <int N, class T>
FUSED_RNN_KERNEL void backward_before_candidate(BackwardStep<T> s) {
  for_each_value<N>(s.shape.batch, s.shape.units, [&](Index b, int j) {
    if (!valid(s.shape, b)) return pass_masked<N>(s, b, j);
    blend<false, N>(s, b, j);
  });
}

template <int N, class T>
FUSED_RNN_KERNEL void backward_before_reset(BackwardStep<T> s) {
  using V = Value<Compute<T>, N>;
  for_each_value<N>(s.shape.batch, s.shape.units, [&](Index b, int j) {
    if (!valid(s.shape, b)) return;
    V d_reset_h = load<N>(row_at(s.d_reset_h, b, j));
    if (s.dropout[kCandidate].data)
      d_reset_h = d_reset_h * load<N>(row_at(s.dropout[kCandidate], b, j));
    const V r = load<N>(row_at(s.reserve[kReset], b, j));
    const V d_r =
        fma(d_reset_h, h_prev<N>(s, b, j),
            load_or_zero<N>(row_or_null(s.d_reserve[kReset], b, j))) *
        activation_slope(s.shape.options.recurrent_activation, r);
    store<N>(row_at(s.carry, b, j),
             fma(d_reset_h, r, load<N>(row_at(s.carry, b, j))));
    store<N>(row_at(s.operand[kReset], b, j), d_r);
    store<N>(row_at(s.d_gates[kReset], b, j), d_r);
  });
}

template <class T>
struct BackwardState : BackwardStep<T> {
  Rows<T> to;
};

template <int N, class T>
FUSED_RNN_KERNEL void backward_state(BackwardState<T> s) {
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
