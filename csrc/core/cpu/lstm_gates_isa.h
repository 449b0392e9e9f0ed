// The elementwise part of an LSTM's step, forward and backward. Included by the
// kernels of an instruction set only.
#ifndef FUSED_RNN_CORE_CPU_LSTM_GATES_ISA_H_
#define FUSED_RNN_CORE_CPU_LSTM_GATES_ISA_H_

#include "core/cpu/gates_isa.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA_NAME {
namespace {

// Peepholes and a bound of the cell state, which only TensorFlow's block cell
// has. The plain cell pays nothing for them.
struct PlainCell {
  template <class C>
  static Vec<C> peep(const C*, Index, Vec<C>, Vec<C> sum) {
    return sum;
  }
  template <class T>
  static Vec<Compute<T>> clip(const RnnOptions&) {
    return splat<Compute<T>>(0);
  }
};
struct BlockCell {
  // sum + p∘c
  template <class C>
  static Vec<C> peep(const C* p, Index j, Vec<C> c, Vec<C> sum) {
    return p ? fma(load(p + j), c, sum) : sum;
  }
  // As a stored c_t has it: the gradient knows by that whether it was cut off.
  template <class T>
  static Vec<Compute<T>> clip(const RnnOptions& options) {
    using C = Compute<T>;
    const C clip = static_cast<C>(options.cell_clip);
    return splat<C>(to_compute(from_compute<T>(clip)));
  }
};

template <class Tile, class Body>
[[gnu::always_inline]] inline void with_kind(const Tile& t, Body body) {
  bool plain = !(t.options.cell_clip > 0);
  for (const auto* p : t.peephole) plain = plain && !p;
  if (plain)
    body(PlainCell{});
  else
    body(BlockCell{});
}

template <class T, class Activations, class Kind>
[[gnu::always_inline]] inline void lstm_forward_rows(const ForwardTile<T>& t,
                                                     Activations f, Kind) {
  using C = Compute<T>;
  const Vec<C> clip = Kind::template clip<T>(t.options);
  for_each_row(t.rows, [&](Index row, Index b) __attribute__((always_inline)) {
    const C* gate_i = row_at(t.gate[kInput], row);
    const C* gate_f = row_at(t.gate[kForget], row);
    const C* gate_j = row_at(t.gate[kCellInput], row);
    const C* gate_o = row_at(t.gate[kOutput], row);
    C* c_row = row_at(t.cell_state, row);
    C* h_next = row_at(t.h_next, row);
    T* output = row_or_null(t.output, b);
    T* keep_i = row_or_null(t.reserve[kInput], b);
    T* keep_f = row_or_null(t.reserve[kForget], b);
    T* keep_j = row_or_null(t.reserve[kCellInput], b);
    T* keep_o = row_or_null(t.reserve[kOutput], b);
    T* keep_c = row_or_null(t.reserve[kCellState], b);
    T* keep_co = row_or_null(t.reserve[kCellOutput], b);
    span<C>(t.units, [&](Index k, auto at) __attribute__((always_inline)) {
      const Vec<C> c_prev = load(c_row + k);
      const Vec<C> i = activate(
          f.gate, Kind::peep(t.peephole[kInput], k, c_prev, load(gate_i + k)));
      const Vec<C> forget = activate(
          f.gate, Kind::peep(t.peephole[kForget], k, c_prev, load(gate_f + k)));
      const Vec<C> j = activate(f.candidate, load(gate_j + k));
      const Vec<C> c = lstm_cell_state(i, forget, j, c_prev, clip);
      const Vec<C> o = activate(
          f.gate, Kind::peep(t.peephole[kOutput], k, c, load(gate_o + k)));
      const Vec<C> co = activate(f.candidate, c);
      const Vec<C> h = o * co;
      store(c_row + k, c);
      store(h_next + k, h);
      put_if(at, output, k, h);
      put_if(at, keep_i, k, i);
      put_if(at, keep_f, k, forget);
      put_if(at, keep_j, k, j);
      put_if(at, keep_o, k, o);
      put_if(at, keep_c, k, c);
      put_if(at, keep_co, k, co);
    });
  });
}

template <class T>
void lstm_forward(const ForwardTile<T>& t) {
  with_activations(t, [&](auto f) __attribute__((always_inline)) {
    with_kind(t, [&](auto kind) __attribute__((always_inline)) {
      lstm_forward_rows(t, f, kind);
    });
  });
}

template <class T, class Activations, class Kind>
[[gnu::always_inline]] inline void lstm_backward_rows(const BackwardTile<T>& t,
                                                      Activations f, Kind) {
  using C = Compute<T>;
  const Vec<C> clip = Kind::template clip<T>(t.options);
  for_each_row(t.rows, [&](Index row, Index b) __attribute__((always_inline)) {
    const Index next = t.rows.ahead(row);
    const C* d = row_at(t.d, row);
    const T* d_output = row_or_null(t.d_output, b);
    C* output_carry = row_or_null(t.output_carry, row);
    C* carry = row_or_null(t.carry, row);
    C* d_cell = row_at(t.d_cell_state, row);
    const T* c_prev_row = previous_or_null(t, t.c_prev, row);
    const T* c_row = row_at(t.reserve[kCellState], b);
    const auto kept = [&](int g, Index k, auto at)
        __attribute__((always_inline)) {
      return at.get(row_at(t.reserve[g], b) + k);
    };
    const auto arriving_at = [&](int g, Index k, auto at)
        __attribute__((always_inline)) {
      return get_or_zero<C>(at, row_or_null(t.d_reserve[g], b), k);
    };
    span<C>(t.units, [&](Index k, auto at) __attribute__((always_inline)) {
      for (int g = 0; g < kMaxGates; ++g) fetch_gate(t, g, b, next, k);
      fetch(c_row, next * t.reserve[kCellState].row, k);
      fetch(d_output, next * t.d_output.row, k);
      const auto put = [&](int g, Vec<C> value) __attribute__((always_inline)) {
        store(row_at(t.operand[g], row) + k, value);
        at.put(row_at(t.d_gates[g], b) + k, value);
      };
      const Vec<C> dh = arriving(at, d, d_output, output_carry, k);
      const Vec<C> i = kept(kInput, k, at);
      const Vec<C> forget = kept(kForget, k, at);
      const Vec<C> j = kept(kCellInput, k, at);
      const Vec<C> o = kept(kOutput, k, at);
      const Vec<C> c = at.get(c_row + k);
      const Vec<C> co = activate(f.candidate, c);

      const Vec<C> d_o = (dh * co + arriving_at(kOutput, k, at)) *
                         activation_slope(f.gate, o);
      const Vec<C> d_co = dh * o + arriving_at(kCellOutput, k, at);
      const Vec<C> d_c = Kind::peep(
          t.peephole[kOutput], k, d_o,
          fma(d_co, activation_slope(f.candidate, co), load(d_cell + k)) +
              arriving_at(kCellState, k, at));
      const auto part =
          lstm_cell_gradient(d_c, i, forget, j,
                             get_or_zero<C>(at, c_prev_row, k), c, clip);
      const Vec<C> d_i = (part.i + arriving_at(kInput, k, at)) *
                         activation_slope(f.gate, i);
      const Vec<C> d_f = (part.f + arriving_at(kForget, k, at)) *
                         activation_slope(f.gate, forget);
      const Vec<C> d_j = (part.j + arriving_at(kCellInput, k, at)) *
                         activation_slope(f.candidate, j);
      store(d_cell + k,
            Kind::peep(t.peephole[kInput], k, d_i,
                       Kind::peep(t.peephole[kForget], k, d_f, part.c)));
      if (carry) store(carry + k, splat<C>(0));
      put(kInput, d_i);
      put(kForget, d_f);
      put(kCellInput, d_j);
      put(kOutput, d_o);
    });
  });
}

template <class T>
void lstm_backward(const BackwardTile<T>& t) {
  with_activations(t, [&](auto f) __attribute__((always_inline)) {
    with_kind(t, [&](auto kind) __attribute__((always_inline)) {
      lstm_backward_rows(t, f, kind);
    });
  });
}

}  // namespace
}  // namespace FUSED_RNN_ISA_NAME
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CPU_LSTM_GATES_ISA_H_
