// The contract of core/rnn.h in plain loops, one value at a time, computed in
// C (double unless told otherwise). Nothing here is fast.
#ifndef FUSED_RNN_TESTS_CORE_NAIVE_RNN_H_
#define FUSED_RNN_TESTS_CORE_NAIVE_RNN_H_

#include "core/naive_cells.h"
#include "core/naive_values.h"

namespace fused_rnn {
namespace naive {

template <class C = double, class T>
void rnn_forward(const RnnForward<T>& g) {
  const RnnShape& s = g.shape;
  const Values<C> zeros(s.units, C(0));
  for (Index b = 0; b < s.batch; ++b) {
    States<C> states{values_of<C>(row_of(g.h0, b), s.units),
                     values_of<C>(row_of(g.c0, b), s.units)};
    Values<C> last_output = zeros;
    for (Index t = 0; t < s.steps; ++t) {
      if (valid(g.mask, t, b)) {
        step(g, t, b, states);
        last_output = states.h;
        write_row(row_of(g.outputs, t, b), states.h);
        continue;
      }
      write_row(row_of(g.outputs, t, b),
                g.options.zero_output_for_mask ? zeros : last_output);
      for (const Sequence<T>& r : g.reserve) write_row(row_of(r, t, b), zeros);
    }
    write_row(row_of(g.state, b), states.h);
    write_row(row_of(g.cell_state, b), states.c);
  }
}

// What the last valid step before t left in `kept`, or the first state.
template <class C, class G, class T>
Values<C> previous(const G& g, const Sequence<const T>& kept,
                   const Rows<const T>& first, Index t, Index b) {
  while (--t >= 0)
    if (valid(g.mask, t, b))
      return values_of<C>(row_of(kept, t, b), g.shape.units);
  return values_of<C>(row_of(first, b), g.shape.units);
}

template <class C = double, class T>
void rnn_backward(const RnnBackward<T>& g) {
  const RnnShape& s = g.shape;
  const Values<C> zeros(s.units, C(0));
  for (Index b = 0; b < s.batch; ++b) {
    States<C> d{values_of<C>(row_of(g.d_state, b), s.units),
                values_of<C>(row_of(g.d_cell_state, b), s.units)};
    Values<C> d_repeated = zeros;  // of masked steps after this one
    for (Index t = s.steps - 1; t >= 0; --t) {
      const Values<C> d_output =
          values_of<C>(row_of(g.d_outputs, t, b), s.units);
      Values<C>& to = valid(g.mask, t, b) ? d.h : d_repeated;
      if (valid(g.mask, t, b) || !g.options.zero_output_for_mask)
        for (Index j = 0; j < s.units; ++j) to[j] += d_output[j];
      if (!valid(g.mask, t, b)) {
        for (const Sequence<T>& gate : g.d_gates)
          write_row(row_of(gate, t, b), zeros);
        continue;
      }
      for (Index j = 0; j < s.units; ++j) d.h[j] += d_repeated[j];
      d_repeated = zeros;
      const States<C> before{
          previous<C>(g, g.outputs, g.h0, t, b),
          previous<C>(g, g.reserve[kCellState], g.c0, t, b)};
      step_back(Kept<C, T>{g, t, b}, before, d);
    }
    write_row(row_of(g.d_h0, b), d.h);
    write_row(row_of(g.d_c0, b), d.c);
  }
}

template <class C = double, class T>
void rnn_input_gradient(const RnnInputGradient<T>& g) {
  const RnnShape& s = g.shape;
  for (Index t = 0; t < s.steps; ++t) {
    for (Index b = 0; b < s.batch; ++b) {
      Values<C> sum(s.inputs, C(0));
      for (int gate = 0; valid(g.mask, t, b) && gate < gate_count(g.options); ++gate) {
        const Values<C> part = times_transposed(
            values_of<C>(row_of(g.d_gates[gate], t, b), s.units),
            g.weights.kernel[gate], s.inputs);
        for (Index i = 0; i < s.inputs; ++i) sum[i] += part[i];
      }
      write_row(row_of(g.d_x, t, b), sum);
    }
  }
}

template <class C = double, class T>
void rnn_weight_gradient(const RnnWeightGradient<T>& g) {
  const RnnShape& s = g.shape;
  for (int gate = 0; gate < gate_count(g.options); ++gate) {
    Values<C> d_kernel(s.inputs * s.units, C(0));
    Values<C> d_recurrent(s.units * s.units, C(0));
    Values<C> d_bias(s.units, C(0)), d_recurrent_bias(s.units, C(0));
    Values<C> d_peephole(s.units, C(0));
    for (Index t = 0; t < s.steps; ++t) {
      for (Index b = 0; b < s.batch; ++b) {
        if (!valid(g.mask, t, b)) continue;
        const Values<C> x = values_of<C>(row_of(g.x, t, b), s.inputs);
        Values<C> h = previous<C>(g, g.outputs, g.h0, t, b);
        if (gate == kCandidate && g.reset) {
          for (Index j = 0; j < s.units; ++j) {
            h[j] *= read<C>(row_of(g.reset, t, b), j);
          }
        }
        h = dropped(h, row_of(g.recurrent_dropout[gate], b));
        const Values<C> d =
            values_of<C>(row_of(g.d_gates[gate], t, b), s.units);
        const Values<C> d_h = values_of<C>(
            row_of(g.d_gates[recurrent_gate(gate, g.options)], t, b), s.units);
        const Values<C> c =
            gate == kOutput
                ? values_of<C>(row_of(g.cell_states, t, b), s.units)
                : previous<C>(g, g.cell_states, g.c0, t, b);
        for (Index j = 0; j < s.units; ++j) {
          d_peephole[j] += d[j] * c[j];
          for (Index i = 0; i < s.inputs; ++i) {
            d_kernel[i * s.units + j] += x[i] * d[j];
          }
          for (Index i = 0; i < s.units; ++i) {
            d_recurrent[i * s.units + j] += h[i] * d_h[j];
          }
          d_bias[j] += d[j];
          d_recurrent_bias[j] += d_h[j];
        }
      }
    }
    for (Index j = 0; j < s.units; ++j) {
      for (Index i = 0; i < s.inputs; ++i) {
        write(row_of(g.d_kernel[gate], i), j, d_kernel[i * s.units + j]);
      }
      for (Index i = 0; i < s.units; ++i) {
        write(row_of(g.d_recurrent[gate], i), j, d_recurrent[i * s.units + j]);
      }
      write(g.d_bias[gate], j, d_bias[j]);
      write(g.d_recurrent_bias[gate], j, d_recurrent_bias[j]);
      write(g.d_peephole[gate], j, d_peephole[j]);
    }
  }
}

}  // namespace naive
}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CORE_NAIVE_RNN_H_
