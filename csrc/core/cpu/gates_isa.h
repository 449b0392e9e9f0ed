// What the elementwise parts of all cells' steps share. The formulas are
// cell_math.h's; here they meet rows, masks and the caller's arrays. Included
// by the kernels of an instruction set only.
#ifndef FUSED_RNN_CORE_CPU_GATES_ISA_H_
#define FUSED_RNN_CORE_CPU_GATES_ISA_H_

#include "core/cell_math.h"
#include "core/cpu/kernels.h"
#include "core/cpu/simd.h"
#include "core/cpu/span_isa.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA_NAME {
namespace {

// Activations known when compiled: the usual pair costs no branch.
struct SigmoidTanh {
  static constexpr Activation gate = Activation::kSigmoid;
  static constexpr Activation candidate = Activation::kTanh;
};
struct AnyActivations {
  Activation gate;
  Activation candidate;
};

template <class Tile, class Body>
[[gnu::always_inline]] inline void with_activations(const Tile& t, Body body) {
  const RnnOptions& o = t.options;
  if (o.recurrent_activation == SigmoidTanh::gate &&
      o.activation == SigmoidTanh::candidate)
    body(SigmoidTanh{});
  else
    body(AnyActivations{o.recurrent_activation, o.activation});
}

template <class T, class At, class V>
[[gnu::always_inline]] inline void put_if(At at, T* row, Index j, V value) {
  if (row) at.put(row + j, value);
}
template <class C, class T, class At>
[[gnu::always_inline]] inline Vec<C> get_or_zero(At at, const T* row, Index j) {
  return row ? at.get(row + j) : splat<C>(0);
}

// While a row is worked on, its successor's line is fetched: rows of the
// caller's arrays are far apart, and their hardware streams too many and short.
template <class T>
[[gnu::always_inline]] inline void fetch(const T* row, Index distance,
                                         Index j) {
  if (row) prefetch(row + distance + j);
}
template <class T>
[[gnu::always_inline]] inline void fetch_to_write(T* row, Index distance,
                                                  Index j) {
  if (row) prefetch_to_write(row + distance + j);
}

// The gradient that arrives at h_t: later steps', this step's output's, and
// that of masked steps which repeated the output.
template <class T, class At>
[[gnu::always_inline]] inline Vec<Compute<T>> arriving(
    At at, const Compute<T>* d, const T* d_output, Compute<T>* output_carry,
    Index j) {
  using C = Compute<T>;
  Vec<C> sum = load(d + j);
  if (d_output) sum = sum + at.get(d_output + j);
  if (output_carry) {
    sum = sum + load(output_carry + j);
    store(output_carry + j, splat<C>(0));
  }
  return sum;
}

// Row i of what a step read, at the block's first unit.
template <class T>
[[gnu::always_inline]] inline const T* previous_or_null(
    const BackwardTile<T>& t, const T* const* rows, Index i) {
  return rows[i] ? rows[i] + t.unit : nullptr;
}

// The next row of a gate's reserve, and of its gradient.
template <class T>
[[gnu::always_inline]] inline void fetch_gate(const BackwardTile<T>& t, int g,
                                              Index b, Index next, Index j) {
  fetch(row_at(t.reserve[g], b), next * t.reserve[g].row, j);
  fetch_to_write(row_at(t.d_gates[g], b), next * t.d_gates[g].row, j);
}

}  // namespace
}  // namespace FUSED_RNN_ISA_NAME
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CPU_GATES_ISA_H_
