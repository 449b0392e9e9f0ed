// A unit of a forward step, for the kernels that compute it. The formulas are
// cell_math.h's; here they meet rows, masks and the caller's arrays.
#ifndef FUSED_RNN_CORE_CUDA_STEP_FORWARD_H_
#define FUSED_RNN_CORE_CUDA_STEP_FORWARD_H_

#include "core/cuda/grid.h"
#include "core/cuda/kernels.h"
#include "core/cuda/step.h"
#include "core/cuda/value.h"

namespace fused_rnn {
namespace cuda {

// x·K + b of a gate, and what the state adds to it but its product.
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
template <int N, class T>
FUSED_RNN_DEVICE void put_state(const ForwardStep<T>& s, Index b, int j,
                                Value<Compute<T>, N> h) {
  store<N>(row_at(s.h_next, b, j), h);
  store_if<N>(row_or_null(s.state, b, j), h);
  for (int g = 0; g < kGruGates; ++g)
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

// Reset after: all of it. `gh`: the products of the gates.
template <int N, class T>
FUSED_RNN_DEVICE void forward_after_at(
    const ForwardStep<T>& s, Index b, int j,
    const Value<Compute<T>, N> (&gh)[kGruGates]) {
  using V = Value<Compute<T>, N>;
  if (!valid(s.shape, b)) return put_masked<N>(s, b, j);
  const V z = gate<N>(s, kUpdate, b, j, gh[kUpdate]);
  const V r = gate<N>(s, kReset, b, j, gh[kReset]);
  const V gh_c = recurrent_part<N>(s, kCandidate, j, gh[kCandidate]);
  const V c = activate(
      s.shape.options.activation,
      gru_candidate_after(input_part<N>(s, kCandidate, b, j), r, gh_c));
  const V h = gru_state(z, load_or_zero<N>(row_or_null(s.h_prev, b, j)), c);
  put_state<N>(s, b, j, h);
  store_if<N>(row_or_null(s.output, b, j), h);
  store_if<N>(row_or_null(s.reserve[kUpdate], b, j), z);
  store_if<N>(row_or_null(s.reserve[kReset], b, j), r);
  store_if<N>(row_or_null(s.reserve[kCandidate], b, j), c);
  store_if<N>(row_or_null(s.reserve[kRecurrentCandidate], b, j), gh_c);
}

// Reset before: the gates, up to reset_h.
template <int N, class T>
FUSED_RNN_DEVICE void forward_before_gates_at(const ForwardStep<T>& s, Index b,
                                              int j,
                                              Value<Compute<T>, N> gh_z,
                                              Value<Compute<T>, N> gh_r) {
  using V = Value<Compute<T>, N>;
  // The product reads all rows; what it makes of this one, nobody does.
  if (!valid(s.shape, b)) return store<N>(row_at(s.reset_h, b, j), V(0));
  const V z = gate<N>(s, kUpdate, b, j, gh_z);
  const V r = gate<N>(s, kReset, b, j, gh_r);
  V reset_h = r * load_or_zero<N>(row_or_null(s.h_prev, b, j));
  if (s.dropout[kCandidate].data)
    reset_h = reset_h * load<N>(row_at(s.dropout[kCandidate], b, j));
  store<N>(row_at(s.z, b, j), z);
  store<N>(row_at(s.reset_h, b, j), reset_h);
  store_if<N>(row_or_null(s.reserve[kUpdate], b, j), z);
  store_if<N>(row_or_null(s.reserve[kReset], b, j), r);
}

// Reset before: the rest.
template <int N, class T>
FUSED_RNN_DEVICE void forward_before_candidate_at(const ForwardStep<T>& s,
                                                  Index b, int j,
                                                  Value<Compute<T>, N> gh_c) {
  using V = Value<Compute<T>, N>;
  if (!valid(s.shape, b)) return put_masked<N>(s, b, j);
  const V c = activate(s.shape.options.activation,
                       input_part<N>(s, kCandidate, b, j) + gh_c);
  const V h = gru_state(load<N>(row_at(s.z, b, j)),
                        load_or_zero<N>(row_or_null(s.h_prev, b, j)), c);
  put_state<N>(s, b, j, h);
  store_if<N>(row_or_null(s.output, b, j), h);
  store_if<N>(row_or_null(s.reserve[kCandidate], b, j), c);
}

}  // namespace cuda
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CUDA_STEP_FORWARD_H_
