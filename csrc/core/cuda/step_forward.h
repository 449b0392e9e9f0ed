// A unit of a forward step, for the kernels that compute it. The formulas are
// cell_math.h's; here they meet rows, masks and the caller's arrays.
#ifndef FUSED_RNN_CORE_CUDA_STEP_FORWARD_H_
#define FUSED_RNN_CORE_CUDA_STEP_FORWARD_H_

#include "core/cuda/cells.h"
#include "core/cuda/grid.h"
#include "core/cuda/kernels.h"
#include "core/cuda/step.h"
#include "core/cuda/value.h"

namespace fused_rnn {
namespace cuda {

// x·K + b of a gate.
template <int N, class T>
FUSED_RNN_DEVICE Value<Compute<T>, N> input_part(const ForwardStep<T>& s,
                                                 int gate, Index b, int j) {
  using V = Value<Compute<T>, N>;
  V sum = load_or_zero<N>(row_or_null(s.gx[gate], b, j));
  if (s.bias[gate]) sum = sum + load<N>(s.bias[gate] + j);
  return sum;
}

// `gh`: the recurrent product.
template <int N, class T>
FUSED_RNN_DEVICE Value<Compute<T>, N> recurrent_part(
    const ForwardStep<T>& s, int gate, int j, Value<Compute<T>, N> gh) {
  if (!s.recurrent_bias[gate]) return gh;
  return gh + load<N>(s.recurrent_bias[gate] + j);
}

template <int N, class T>
FUSED_RNN_DEVICE Value<Compute<T>, N> gate(const ForwardStep<T>& s, int gate,
                                           Index b, int j,
                                           Value<Compute<T>, N> gh) {
  return activate(
      s.shape.options.recurrent_activation,
      input_part<N>(s, gate, b, j) + recurrent_part<N>(s, gate, j, gh));
}

// The new state, and all that is made of it.
template <class Cell, int N, class T>
FUSED_RNN_DEVICE void put_state(const ForwardStep<T>& s, Index b, int j,
                                Value<Compute<T>, N> h) {
  store<N>(row_at(s.h_next, b, j), h);
  store_if<N>(row_or_null(s.state, b, j), h);
  for (int g = 0; g < Cell::kGates; ++g)
    if (s.dropped[g].data)
      store<N>(row_at(s.dropped[g], b, j),
               h * load<N>(row_at(s.dropout[g], b, j)));
}
template <int N, class T>
FUSED_RNN_DEVICE void put_cell_state(const ForwardStep<T>& s, Index b, int j,
                                     Value<Compute<T>, N> c) {
  store<N>(row_at(s.c_next, b, j), c);
  store_if<N>(row_or_null(s.cell_state, b, j), c);
}

template <class Cell, int N, class T>
FUSED_RNN_DEVICE void put_masked(const ForwardStep<T>& s, Index b, int j) {
  using V = Value<Compute<T>, N>;
  put_state<Cell, N>(s, b, j, load_or_zero<N>(row_or_null(s.h_prev, b, j)));
  if constexpr (Cell::kHasCellState)
    put_cell_state<N>(s, b, j, load_or_zero<N>(row_or_null(s.c_prev, b, j)));
  if (s.output.data) {
    const bool zero = s.shape.options.zero_output_for_mask;
    store<N>(row_at(s.output, b, j),
             load_or_zero<N>(zero ? nullptr
                                  : row_or_null(s.previous_output, b, j)));
  }
  for (int i = 0; i < Cell::kReserve; ++i)
    store_if<N>(row_or_null(s.reserve[i], b, j), V(0));
}

// Of each cell what follows the product of a stage. `gh`: the products of the
// stage's gates.

template <int N, class T>
FUSED_RNN_DEVICE void forward_at(
    GruAfter, Stage<0>, const ForwardStep<T>& s, Index b, int j,
    const Value<Compute<T>, N> (&gh)[kGruGates]) {
  using V = Value<Compute<T>, N>;
  if (!valid(s.shape, b)) return put_masked<GruAfter, N>(s, b, j);
  const V z = gate<N>(s, kUpdate, b, j, gh[kUpdate]);
  const V r = gate<N>(s, kReset, b, j, gh[kReset]);
  const V gh_c = recurrent_part<N>(s, kCandidate, j, gh[kCandidate]);
  const V c = activate(
      s.shape.options.activation,
      gru_candidate_after(input_part<N>(s, kCandidate, b, j), r, gh_c));
  const V h = gru_state(z, load_or_zero<N>(row_or_null(s.h_prev, b, j)), c);
  put_state<GruAfter, N>(s, b, j, h);
  store_if<N>(row_or_null(s.output, b, j), h);
  store_if<N>(row_or_null(s.reserve[kUpdate], b, j), z);
  store_if<N>(row_or_null(s.reserve[kReset], b, j), r);
  store_if<N>(row_or_null(s.reserve[kCandidate], b, j), c);
  store_if<N>(row_or_null(s.reserve[kRecurrentCandidate], b, j), gh_c);
}

// The gates, up to reset_h.
template <int N, class T>
FUSED_RNN_DEVICE void forward_at(
    GruBefore, Stage<0>, const ForwardStep<T>& s, Index b, int j,
    const Value<Compute<T>, N> (&gh)[kCandidate]) {
  using V = Value<Compute<T>, N>;
  // The product reads all rows; what it makes of this one, nobody does.
  if (!valid(s.shape, b)) return store<N>(row_at(s.reset_h, b, j), V(0));
  const V z = gate<N>(s, kUpdate, b, j, gh[kUpdate]);
  const V r = gate<N>(s, kReset, b, j, gh[kReset]);
  V reset_h = r * load_or_zero<N>(row_or_null(s.h_prev, b, j));
  if (s.dropout[kCandidate].data)
    reset_h = reset_h * load<N>(row_at(s.dropout[kCandidate], b, j));
  store<N>(row_at(s.z, b, j), z);
  store<N>(row_at(s.reset_h, b, j), reset_h);
  store_if<N>(row_or_null(s.reserve[kUpdate], b, j), z);
  store_if<N>(row_or_null(s.reserve[kReset], b, j), r);
}

template <int N, class T>
FUSED_RNN_DEVICE void forward_at(GruBefore, Stage<1>, const ForwardStep<T>& s,
                                 Index b, int j,
                                 const Value<Compute<T>, N> (&gh)[1]) {
  using V = Value<Compute<T>, N>;
  if (!valid(s.shape, b)) return put_masked<GruBefore, N>(s, b, j);
  const V c = activate(s.shape.options.activation,
                       input_part<N>(s, kCandidate, b, j) + gh[0]);
  const V h = gru_state(load<N>(row_at(s.z, b, j)),
                        load_or_zero<N>(row_or_null(s.h_prev, b, j)), c);
  put_state<GruBefore, N>(s, b, j, h);
  store_if<N>(row_or_null(s.output, b, j), h);
  store_if<N>(row_or_null(s.reserve[kCandidate], b, j), c);
}

template <int N, class T>
FUSED_RNN_DEVICE void forward_at(Lstm, Stage<0>, const ForwardStep<T>& s,
                                 Index b, int j,
                                 const Value<Compute<T>, N> (&gh)[kMaxGates]) {
  using V = Value<Compute<T>, N>;
  if (!valid(s.shape, b)) return put_masked<Lstm, N>(s, b, j);
  const RnnOptions& options = s.shape.options;
  const auto sum = [&](int g) { return input_part<N>(s, g, b, j) + gh[g]; };
  const auto gate_of = [&](int g, V of, V c) {
    return activate(options.recurrent_activation,
                    add_peephole<N>(s.peephole[g], j, c, of));
  };
  const V c_prev = load_or_zero<N>(row_or_null(s.c_prev, b, j));
  const V i = gate_of(kInput, sum(kInput), c_prev);
  const V f =
      gate_of(kForget, sum(kForget) + V(options.forget_bias), c_prev);
  const V g = activate(options.activation, sum(kCellInput));
  const V c = lstm_cell_state(i, f, g, c_prev, V(options.cell_clip));
  const V o = gate_of(kOutput, sum(kOutput), c);
  const V co = activate(options.activation, c);
  const V h = o * co;
  put_cell_state<N>(s, b, j, c);
  put_state<Lstm, N>(s, b, j, h);
  store_if<N>(row_or_null(s.output, b, j), h);
  const V kept[] = {i, f, g, o, c, co};
  for (int k = 0; k < Lstm::kReserve; ++k)
    store_if<N>(row_or_null(s.reserve[k], b, j), kept[k]);
}

template <int N, class T>
FUSED_RNN_DEVICE void forward_at(SimpleRnn, Stage<0>, const ForwardStep<T>& s,
                                 Index b, int j,
                                 const Value<Compute<T>, N> (&gh)[1]) {
  using V = Value<Compute<T>, N>;
  if (!valid(s.shape, b)) return put_masked<SimpleRnn, N>(s, b, j);
  const V h = activate(s.shape.options.activation,
                       input_part<N>(s, 0, b, j) + gh[0]);
  put_state<SimpleRnn, N>(s, b, j, h);
  store_if<N>(row_or_null(s.output, b, j), h);
}

}  // namespace cuda
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CUDA_STEP_FORWARD_H_
