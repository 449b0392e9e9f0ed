// The elementwise part of a GRU's step, forward and backward. Included by the
// kernels of an instruction set only.
#ifndef FUSED_RNN_CORE_CPU_GRU_GATES_ISA_H_
#define FUSED_RNN_CORE_CPU_GRU_GATES_ISA_H_

#include "core/cpu/gates_isa.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA_NAME {
namespace {

template <class T>
void gru_forward_after(const ForwardTile<T>& t) {
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
void gru_forward_before_gates(const ForwardTile<T>& t) {
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
void gru_forward_before_candidate(const ForwardTile<T>& t) {
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

// Both conventions meet here: what h_t = z∘h + (1−z)∘c hands to z̄, c̄ and h.
// kAfter adds the reset gate, which reset before can only do one product later.
template <bool kAfter, class T>
void gru_backward_blend(const BackwardTile<T>& t) {
  using C = Compute<T>;
  with_activations(t, [&](auto f) __attribute__((always_inline)) {
    for_each_row(t.rows, [&](Index i, Index b) __attribute__((always_inline)) {
      const Index next = t.rows.ahead(i);
      const C* d = row_at(t.d, i);
      const T* d_output = row_or_null(t.d_output, b);
      C* output_carry = row_or_null(t.output_carry, i);
      C* carry = row_at(t.carry, i);
      const T* h_prev = previous_or_null(t, t.h_prev, i);
      const T* h_next = previous_or_null(t, t.h_prev, next ? i + 1 : i);
      const T* z_row = row_at(t.reserve[kUpdate], b);
      const T* r_row = kAfter ? row_at(t.reserve[kReset], b) : nullptr;
      const T* c_row = row_at(t.reserve[kCandidate], b);
      const T* gh_row =
          kAfter ? row_at(t.reserve[kRecurrentCandidate], b) : nullptr;
      const T* in_z = row_or_null(t.d_reserve[kUpdate], b);
      const T* in_r = row_or_null(t.d_reserve[kReset], b);
      const T* in_c = row_or_null(t.d_reserve[kCandidate], b);
      span<C>(t.units, [&](Index j, auto at) __attribute__((always_inline)) {
        fetch_gate(t, kUpdate, b, next, j);
        fetch_gate(t, kCandidate, b, next, j);
        if constexpr (kAfter) {
          fetch_gate(t, kReset, b, next, j);
          fetch_gate(t, kRecurrentCandidate, b, next, j);
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
void gru_backward_after(const BackwardTile<T>& t) {
  gru_backward_blend<true>(t);
}
template <class T>
void gru_backward_before_candidate(const BackwardTile<T>& t) {
  gru_backward_blend<false>(t);
}

template <class T>
void gru_backward_before_reset(const BackwardTile<T>& t) {
  using C = Compute<T>;
  with_activations(t, [&](auto f) __attribute__((always_inline)) {
    for_each_row(t.rows, [&](Index i, Index b) __attribute__((always_inline)) {
      const Index next = t.rows.ahead(i);
      const C* d = row_at(t.d, i);
      C* carry = row_at(t.carry, i);
      const T* h_prev = previous_or_null(t, t.h_prev, i);
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

#endif  // FUSED_RNN_CORE_CPU_GRU_GATES_ISA_H_
