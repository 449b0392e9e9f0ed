// A unit of a backward step, for the kernels that compute it.
#ifndef FUSED_RNN_CORE_CUDA_STEP_BACKWARD_H_
#define FUSED_RNN_CORE_CUDA_STEP_BACKWARD_H_

#include "core/cuda/cells.h"
#include "core/cuda/grid.h"
#include "core/cuda/kernels.h"
#include "core/cuda/step.h"
#include "core/cuda/value.h"

namespace fused_rnn {
namespace cuda {

// What the last valid step before this one left in `kept`, or the first state.
template <int N, class T>
FUSED_RNN_DEVICE Value<Compute<T>, N> before(const BackwardStep<T>& s,
                                             const Sequence<const T>& kept,
                                             const Rows<const T>& first,
                                             Index b, int j) {
  const Index t = s.previous ? s.previous[b] : s.step - 1;
  return load_or_zero<N>(t >= 0 ? kept.data + t * kept.step + b * kept.row + j
                                : row_or_null(first, b, j));
}
template <int N, class T>
FUSED_RNN_DEVICE Value<Compute<T>, N> h_prev(const BackwardStep<T>& s, Index b,
                                             int j) {
  return before<N>(s, s.outputs, s.h0, b, j);
}

// Through a masked step the states' gradients pass, and no gate gets any.
template <class Cell, int N, class T>
FUSED_RNN_DEVICE void pass_masked(const BackwardStep<T>& s, Index b, int j,
                                  Value<Compute<T>, N> from_later) {
  using V = Value<Compute<T>, N>;
  store<N>(row_at(s.carry, b, j), from_later);
  if (s.output_carry.data && s.d_output.data)
    store<N>(row_at(s.output_carry, b, j),
             load<N>(row_at(s.output_carry, b, j)) +
                 load<N>(row_at(s.d_output, b, j)));
  for (int g = 0; g < Cell::kGradients; ++g) {
    store_if<N>(row_or_null(s.operand[g], b, j), V(0));
    store<N>(row_at(s.d_gates[g], b, j), V(0));
  }
}

// ∂/∂h_t, in full.
template <int N, class T>
FUSED_RNN_DEVICE Value<Compute<T>, N> arriving(
    const BackwardStep<T>& s, Index b, int j, Value<Compute<T>, N> from_later) {
  using V = Value<Compute<T>, N>;
  V d_h = from_later + load_or_zero<N>(row_or_null(s.d_output, b, j));
  if (s.output_carry.data) {
    d_h = d_h + load<N>(row_at(s.output_carry, b, j));
    store<N>(row_at(s.output_carry, b, j), V(0));
  }
  return d_h;
}

// What the caller sends to a value of the reserve.
template <int N, class T>
FUSED_RNN_DEVICE Value<Compute<T>, N> arriving_at(const BackwardStep<T>& s,
                                                  int i, Index b, int j) {
  return load_or_zero<N>(row_or_null(s.d_reserve[i], b, j));
}
template <int N, class T>
FUSED_RNN_DEVICE Value<Compute<T>, N> kept(const BackwardStep<T>& s, int i,
                                           Index b, int j) {
  return load<N>(row_at(s.reserve[i], b, j));
}

// A gate's gradient, where its product reads the same.
template <int N, class T>
FUSED_RNN_DEVICE void put_gate(const BackwardStep<T>& s, int g, Index b, int j,
                               Value<Compute<T>, N> d) {
  store<N>(row_at(s.operand[g], b, j), d);
  store<N>(row_at(s.d_gates[g], b, j), d);
}

// Of each cell what comes before the product of a stage. `from_later`: what
// reaches h_t from later steps.

// Both conventions of a GRU: what h_t = z∘h + (1−z)∘c hands to z̄, c̄ and h.
// Reset after adds the reset gate, which reset before can only do one product
// later.
template <int N, class T, bool kAfter>
FUSED_RNN_DEVICE void backward_at(CellOf<Cell::kGru, kAfter> cell, Stage<0>,
                                  const BackwardStep<T>& s, Index b, int j,
                                  Value<Compute<T>, N> from_later) {
  using V = Value<Compute<T>, N>;
  const RnnOptions& options = s.shape.options;
  if (!valid(s.shape, b))
    return pass_masked<decltype(cell), N>(s, b, j, from_later);
  const V d_h = arriving<N>(s, b, j, from_later);
  const V z = kept<N>(s, kUpdate, b, j);
  const V c = kept<N>(s, kCandidate, b, j);
  const auto part = gru_state_gradient(d_h, z, h_prev<N>(s, b, j), c);
  const V d_z = (part.z + arriving_at<N>(s, kUpdate, b, j)) *
                activation_slope(options.recurrent_activation, z);
  const V d_c = (part.c + arriving_at<N>(s, kCandidate, b, j)) *
                activation_slope(options.activation, c);
  store<N>(row_at(s.carry, b, j), part.h);
  if constexpr (kAfter) {
    const V r = kept<N>(s, kReset, b, j);
    const V gh = kept<N>(s, kRecurrentCandidate, b, j);
    const V d_r = fma(d_c, gh, arriving_at<N>(s, kReset, b, j)) *
                  activation_slope(options.recurrent_activation, r);
    put_gate<N>(s, kReset, b, j, d_r);
    put_gate<N>(s, kRecurrentCandidate, b, j, d_c * r);
    store<N>(row_at(s.d_gates[kCandidate], b, j), d_c);
  } else {
    put_gate<N>(s, kCandidate, b, j, d_c);
  }
  put_gate<N>(s, kUpdate, b, j, d_z);
}

// The reset gate. `d_reset_h`: the product of the candidate.
template <int N, class T>
FUSED_RNN_DEVICE void backward_at(GruBefore, Stage<1>,
                                  const BackwardStep<T>& s, Index b, int j,
                                  Value<Compute<T>, N> d_reset_h) {
  using V = Value<Compute<T>, N>;
  if (!valid(s.shape, b)) return;
  if (s.dropout[kCandidate].data)
    d_reset_h = d_reset_h * load<N>(row_at(s.dropout[kCandidate], b, j));
  const V r = kept<N>(s, kReset, b, j);
  const V d_r = fma(d_reset_h, h_prev<N>(s, b, j),
                    arriving_at<N>(s, kReset, b, j)) *
                activation_slope(s.shape.options.recurrent_activation, r);
  store<N>(row_at(s.carry, b, j),
           fma(d_reset_h, r, load<N>(row_at(s.carry, b, j))));
  put_gate<N>(s, kReset, b, j, d_r);
}

template <int N, class T>
FUSED_RNN_DEVICE void backward_at(Lstm, Stage<0>, const BackwardStep<T>& s,
                                  Index b, int j,
                                  Value<Compute<T>, N> from_later) {
  using V = Value<Compute<T>, N>;
  if (!valid(s.shape, b)) return pass_masked<Lstm, N>(s, b, j, from_later);
  const RnnOptions& options = s.shape.options;
  const auto through = [&](int g, V d, Activation f, V gate) {
    const V d_gate =
        (d + arriving_at<N>(s, g, b, j)) * activation_slope(f, gate);
    put_gate<N>(s, g, b, j, d_gate);
    return d_gate;
  };
  const auto peep = [&](int g, V d_gate, V sum) {
    return add_peephole<N>(s.peephole[g], j, d_gate, sum);
  };
  const Activation of_gate = options.recurrent_activation;
  const V d_h = arriving<N>(s, b, j, from_later);
  const V i = kept<N>(s, kInput, b, j);
  const V f = kept<N>(s, kForget, b, j);
  const V g = kept<N>(s, kCellInput, b, j);
  const V o = kept<N>(s, kOutput, b, j);
  const V c = kept<N>(s, kCellState, b, j);
  const V co = activate(options.activation, c);
  const V c_prev = before<N>(s, s.cell_states, s.c0, b, j);

  const V d_o = through(kOutput, d_h * co, of_gate, o);
  const V d_co = fma(d_h, o, arriving_at<N>(s, kCellOutput, b, j));
  const V d_c =
      peep(kOutput, d_o,
           fma(d_co, activation_slope(options.activation, co),
               load<N>(row_at(s.d_cell, b, j))) +
               arriving_at<N>(s, kCellState, b, j));
  const auto part =
      lstm_cell_gradient(d_c, i, f, g, c_prev, c, V(options.cell_clip));
  const V d_i = through(kInput, part.i, of_gate, i);
  const V d_f = through(kForget, part.f, of_gate, f);
  through(kCellInput, part.j, options.activation, g);
  store<N>(row_at(s.d_cell, b, j),
           peep(kInput, d_i, peep(kForget, d_f, part.c)));
  store_if<N>(row_or_null(s.carry, b, j), V(0));
}

template <int N, class T>
FUSED_RNN_DEVICE void backward_at(SimpleRnn, Stage<0>,
                                  const BackwardStep<T>& s, Index b, int j,
                                  Value<Compute<T>, N> from_later) {
  using V = Value<Compute<T>, N>;
  if (!valid(s.shape, b)) return pass_masked<SimpleRnn, N>(s, b, j, from_later);
  const V h = load<N>(s.outputs.data + s.step * s.outputs.step +
                      b * s.outputs.row + j);
  put_gate<N>(s, 0, b, j,
              arriving<N>(s, b, j, from_later) *
                  activation_slope(s.shape.options.activation, h));
  store_if<N>(row_or_null(s.carry, b, j), V(0));
}

}  // namespace cuda
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CUDA_STEP_BACKWARD_H_
