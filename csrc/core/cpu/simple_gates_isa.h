// The elementwise part of a simple RNN's step, forward and backward. Included by
// the kernels of an instruction set only.
#ifndef FUSED_RNN_CORE_CPU_SIMPLE_GATES_ISA_H_
#define FUSED_RNN_CORE_CPU_SIMPLE_GATES_ISA_H_

#include "core/cpu/gates_isa.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA_NAME {
namespace {

template <class T>
void simple_forward(const ForwardTile<T>& t) {
  using C = Compute<T>;
  with_activations(t, [&](auto f) __attribute__((always_inline)) {
    for_each_row(t.rows, [&](Index i, Index b) __attribute__((always_inline)) {
      const C* gate = row_at(t.gate[0], i);
      C* h_next = row_at(t.h_next, i);
      T* output = row_or_null(t.output, b);
      span<C>(t.units, [&](Index j, auto at) __attribute__((always_inline)) {
        const Vec<C> h = activate(f.candidate, load(gate + j));
        store(h_next + j, h);
        put_if(at, output, j, h);
      });
    });
  });
}

template <class T>
void simple_backward(const BackwardTile<T>& t) {
  using C = Compute<T>;
  with_activations(t, [&](auto f) __attribute__((always_inline)) {
    for_each_row(t.rows, [&](Index i, Index b) __attribute__((always_inline)) {
      const Index next = t.rows.ahead(i);
      const C* d = row_at(t.d, i);
      const T* d_output = row_or_null(t.d_output, b);
      C* output_carry = row_or_null(t.output_carry, i);
      C* carry = row_or_null(t.carry, i);
      const T* h_row = row_at(t.output, b);
      C* operand = row_at(t.operand[0], i);
      T* d_gate = row_at(t.d_gates[0], b);
      span<C>(t.units, [&](Index j, auto at) __attribute__((always_inline)) {
        fetch(h_row, next * t.output.row, j);
        fetch(d_output, next * t.d_output.row, j);
        fetch_to_write(d_gate, next * t.d_gates[0].row, j);
        const Vec<C> d_h = arriving(at, d, d_output, output_carry, j) *
                           activation_slope(f.candidate, at.get(h_row + j));
        if (carry) store(carry + j, splat<C>(0));
        store(operand + j, d_h);
        at.put(d_gate + j, d_h);
      });
    });
  });
}

}  // namespace
}  // namespace FUSED_RNN_ISA_NAME
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CPU_SIMPLE_GATES_ISA_H_
