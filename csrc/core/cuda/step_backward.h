// A unit of a backward step, for the kernels that compute it.
#ifndef FUSED_RNN_CORE_CUDA_STEP_BACKWARD_H_
#define FUSED_RNN_CORE_CUDA_STEP_BACKWARD_H_

#include "core/cuda/grid.h"
#include "core/cuda/kernels.h"
#include "core/cuda/step.h"
#include "core/cuda/value.h"

namespace fused_rnn {
namespace cuda {

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
FUSED_RNN_DEVICE void pass_masked(const BackwardStep<T>& s, Index b, int j,
                                  Value<Compute<T>, N> from_later) {
  using V = Value<Compute<T>, N>;
  store<N>(row_at(s.carry, b, j), from_later);
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
// `from_later`: what reaches h_t from later steps.
template <bool kAfter, int N, class T>
FUSED_RNN_DEVICE void backward_blend_at(const BackwardStep<T>& s, Index b,
                                        int j,
                                        Value<Compute<T>, N> from_later) {
  using V = Value<Compute<T>, N>;
  const RnnOptions& options = s.shape.options;
  if (!valid(s.shape, b)) return pass_masked<N>(s, b, j, from_later);
  V d_h = from_later + load_or_zero<N>(row_or_null(s.d_output, b, j));
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

// Reset before: the reset gate. `d_reset_h`: the product of the candidate.
template <int N, class T>
FUSED_RNN_DEVICE void backward_before_reset_at(const BackwardStep<T>& s,
                                               Index b, int j,
                                               Value<Compute<T>, N> d_reset_h) {
  using V = Value<Compute<T>, N>;
  if (!valid(s.shape, b)) return;
  if (s.dropout[kCandidate].data)
    d_reset_h = d_reset_h * load<N>(row_at(s.dropout[kCandidate], b, j));
  const V r = load<N>(row_at(s.reserve[kReset], b, j));
  const V d_r = fma(d_reset_h, h_prev<N>(s, b, j),
                    load_or_zero<N>(row_or_null(s.d_reserve[kReset], b, j))) *
                activation_slope(s.shape.options.recurrent_activation, r);
  store<N>(row_at(s.carry, b, j),
           fma(d_reset_h, r, load<N>(row_at(s.carry, b, j))));
  store<N>(row_at(s.operand[kReset], b, j), d_r);
  store<N>(row_at(s.d_gates[kReset], b, j), d_r);
}

}  // namespace cuda
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CUDA_STEP_BACKWARD_H_
