// The elementwise part of each step, forward and backward. The formulas are
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
  const GruOptions& o = t.options;
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

template <class T>
void forward_after(const ForwardTile<T>& t) {
  using C = Compute<T>;
  with_activations(t, [&](auto f) __attribute__((always_inline)) {
    for_each_row(t.rows, [&](Index i, Index b) __attribute__((always_inline)) {
      const C* gx_z = row_at(t.gate[kUpdate], i);
      const C* gx_r = row_at(t.gate[kReset], i);
      const C* gx_c = row_at(t.gate[kCandidate], i);
      const C* gh_c = row_at(t.gh_c, i);
      const C* h_prev = row_at(t.h_prev, i);
      C* h_next = row_at(t.h_next, i);
      T* output = row_or_null(t.output, b);
      T* keep_z = row_or_null(t.reserve[kUpdate], b);
      T* keep_r = row_or_null(t.reserve[kReset], b);
      T* keep_c = row_or_null(t.reserve[kCandidate], b);
      T* keep_gh = row_or_null(t.reserve[kRecurrentCandidate], b);
      span<C>(t.units, [&](Index j, auto at) __attribute__((always_inline)) {
        const Vec<C> z = activate(f.gate, load(gx_z + j));
        const Vec<C> r = activate(f.gate, load(gx_r + j));
        const Vec<C> gh = load(gh_c + j);
        const Vec<C> c =
            activate(f.candidate, gru_candidate_after(load(gx_c + j), r, gh));
        const Vec<C> h = gru_state(z, at.get(h_prev + j), c);
        store(h_next + j, h);
        put_if(at, output, j, h);
        put_if(at, keep_z, j, z);
        put_if(at, keep_r, j, r);
        put_if(at, keep_c, j, c);
        put_if(at, keep_gh, j, gh);
      });
    });
  });
}

template <class T>
void forward_before_gates(const ForwardTile<T>& t) {
  using C = Compute<T>;
  with_activations(t, [&](auto f) __attribute__((always_inline)) {
    for_each_row(t.rows, [&](Index i, Index b) __attribute__((always_inline)) {
      const C* gate_z = row_at(t.gate[kUpdate], i);
      const C* gate_r = row_at(t.gate[kReset], i);
      const C* h_prev = row_at(t.h_prev, i);
      C* keep_next = row_at(t.h_next, i);
      C* reset_h = row_at(t.reset_h, i);
      T* keep_z = row_or_null(t.reserve[kUpdate], b);
      T* keep_r = row_or_null(t.reserve[kReset], b);
      span<C>(t.units, [&](Index j, auto at) __attribute__((always_inline)) {
        const Vec<C> z = activate(f.gate, load(gate_z + j));
        const Vec<C> r = activate(f.gate, load(gate_r + j));
        store(keep_next + j, z);
        store(reset_h + j, r * at.get(h_prev + j));
        put_if(at, keep_z, j, z);
        put_if(at, keep_r, j, r);
      });
    });
  });
}

template <class T>
void forward_before_candidate(const ForwardTile<T>& t) {
  using C = Compute<T>;
  with_activations(t, [&](auto f) __attribute__((always_inline)) {
    for_each_row(t.rows, [&](Index i, Index b) __attribute__((always_inline)) {
      const C* gate_c = row_at(t.gate[kCandidate], i);
      const C* h_prev = row_at(t.h_prev, i);
      C* h_next = row_at(t.h_next, i);
      T* output = row_or_null(t.output, b);
      T* keep_c = row_or_null(t.reserve[kCandidate], b);
      span<C>(t.units, [&](Index j, auto at) __attribute__((always_inline)) {
        const Vec<C> c = activate(f.candidate, load(gate_c + j));
        const Vec<C> h = gru_state(load(h_next + j), at.get(h_prev + j), c);
        store(h_next + j, h);
        put_if(at, output, j, h);
        put_if(at, keep_c, j, c);
      });
    });
  });
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

template <class T>
[[gnu::always_inline]] inline const T* h_prev_or_null(const BackwardTile<T>& t,
                                                      Index i) {
  return t.h_prev[i] ? t.h_prev[i] + t.unit : nullptr;
}

// Both conventions meet here: what h_t = z∘h + (1−z)∘c hands to z̄, c̄ and h.
// kAfter adds the reset gate, which reset before can only do one product later.
template <bool kAfter, class T>
void backward_blend(const BackwardTile<T>& t) {
  using C = Compute<T>;
  with_activations(t, [&](auto f) __attribute__((always_inline)) {
    for_each_row(t.rows, [&](Index i, Index b) __attribute__((always_inline)) {
      const Index next = t.rows.ahead(i);
      const C* d = row_at(t.d, i);
      const T* d_output = row_or_null(t.d_output, b);
      C* output_carry = row_or_null(t.output_carry, i);
      C* carry = row_at(t.carry, i);
      const T* h_prev = h_prev_or_null(t, i);
      const T* h_next = h_prev_or_null(t, next ? i + 1 : i);
      const T* z_row = row_at(t.reserve[kUpdate], b);
      const T* r_row = kAfter ? row_at(t.reserve[kReset], b) : nullptr;
      const T* c_row = row_at(t.reserve[kCandidate], b);
      const T* gh_row =
          kAfter ? row_at(t.reserve[kRecurrentCandidate], b) : nullptr;
      const T* in_z = row_or_null(t.d_reserve[kUpdate], b);
      const T* in_r = row_or_null(t.d_reserve[kReset], b);
      const T* in_c = row_or_null(t.d_reserve[kCandidate], b);
      const auto fetch_gate = [&](int g, Index j)
          __attribute__((always_inline)) {
        fetch(row_at(t.reserve[g], b), next * t.reserve[g].row, j);
        fetch_to_write(row_at(t.d_gates[g], b), next * t.d_gates[g].row, j);
      };
      span<C>(t.units, [&](Index j, auto at) __attribute__((always_inline)) {
        fetch_gate(kUpdate, j);
        fetch_gate(kCandidate, j);
        if constexpr (kAfter) {
          fetch_gate(kReset, j);
          fetch_gate(kRecurrentCandidate, j);
        }
        fetch(d_output, next * t.d_output.row, j);
        fetch(h_next, 0, j);
        const Vec<C> dh = arriving(at, d, d_output, output_carry, j);
        const Vec<C> z = at.get(z_row + j);
        const Vec<C> c = at.get(c_row + j);
        const auto part = gru_state_gradient(
            dh, z, get_or_zero<C>(at, h_prev, j), c);
        const Vec<C> d_z = (part.z + get_or_zero<C>(at, in_z, j)) *
                           activation_slope(f.gate, z);
        const Vec<C> d_c = (part.c + get_or_zero<C>(at, in_c, j)) *
                           activation_slope(f.candidate, c);
        store(row_at(t.operand[kUpdate], i) + j, d_z);
        store(carry + j, part.h);
        if constexpr (kAfter) {
          const Vec<C> r = at.get(r_row + j);
          const Vec<C> d_r =
              (d_c * at.get(gh_row + j) + get_or_zero<C>(at, in_r, j)) *
              activation_slope(f.gate, r);
          const Vec<C> d_gh = d_c * r;
          store(row_at(t.operand[kReset], i) + j, d_r);
          store(row_at(t.operand[kRecurrentCandidate], i) + j, d_gh);
          at.put(row_at(t.d_gates[kReset], b) + j, d_r);
          at.put(row_at(t.d_gates[kRecurrentCandidate], b) + j, d_gh);
        } else {
          store(row_at(t.operand[kCandidate], i) + j, d_c);
        }
        at.put(row_at(t.d_gates[kUpdate], b) + j, d_z);
        at.put(row_at(t.d_gates[kCandidate], b) + j, d_c);
      });
    });
  });
}

template <class T>
void backward_after(const BackwardTile<T>& t) {
  backward_blend<true>(t);
}
template <class T>
void backward_before_candidate(const BackwardTile<T>& t) {
  backward_blend<false>(t);
}

template <class T>
void backward_before_reset(const BackwardTile<T>& t) {
  using C = Compute<T>;
  with_activations(t, [&](auto f) __attribute__((always_inline)) {
    for_each_row(t.rows, [&](Index i, Index b) __attribute__((always_inline)) {
      const Index next = t.rows.ahead(i);
      const C* d = row_at(t.d, i);
      C* carry = row_at(t.carry, i);
      const T* h_prev = h_prev_or_null(t, i);
      const T* r_row = row_at(t.reserve[kReset], b);
      const T* in_r = row_or_null(t.d_reserve[kReset], b);
      C* operand = row_at(t.operand[kReset], i);
      T* d_gate = row_at(t.d_gates[kReset], b);
      span<C>(t.units, [&](Index j, auto at) __attribute__((always_inline)) {
        fetch(r_row, next * t.reserve[kReset].row, j);
        fetch_to_write(d_gate, next * t.d_gates[kReset].row, j);
        const Vec<C> d_reset_h = load(d + j);
        const Vec<C> r = at.get(r_row + j);
        const Vec<C> d_r = (d_reset_h * get_or_zero<C>(at, h_prev, j) +
                            get_or_zero<C>(at, in_r, j)) *
                           activation_slope(f.gate, r);
        store(carry + j, load(carry + j) + d_reset_h * r);
        store(operand + j, d_r);
        at.put(d_gate + j, d_r);
      });
    });
  });
}

}  // namespace
}  // namespace FUSED_RNN_ISA_NAME
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CPU_GATES_ISA_H_
