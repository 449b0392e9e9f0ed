// One step of each cell, forward and backward, in plain loops.
#ifndef FUSED_RNN_TESTS_CORE_NAIVE_CELLS_H_
#define FUSED_RNN_TESTS_CORE_NAIVE_CELLS_H_

#include "core/naive_values.h"

namespace fused_rnn {
namespace naive {

template <class C>
struct States {
  Values<C> h, c;
};

// x·K_g + b_g
template <class C, class T>
Values<C> projected(const RnnForward<T>& g, int gate, Index t, Index b) {
  Values<C> sum = values_of<C>(g.weights.bias[gate], g.shape.units);
  add_product(sum, values_of<C>(row_of(g.x, t, b), g.shape.inputs),
              g.weights.kernel[gate]);
  return sum;
}

// sum += (v∘m_g)·R_g
template <class C, class T>
void add_recurrent(Values<C>& sum, const RnnForward<T>& g, int gate, Index b,
                   const Values<C>& v) {
  add_product(sum, dropped(v, row_of(g.recurrent_dropout[gate], b)),
              g.weights.recurrent[gate]);
}

template <class C, class T>
void gru_step(const RnnForward<T>& g, Index t, Index b, States<C>& states) {
  const RnnOptions& o = g.options;
  const Index units = g.shape.units;
  Values<C>& h = states.h;
  Values<C> gate[kGruGates], gh_c;
  for (int i = 0; i < kGruGates; ++i) gate[i] = projected<C>(g, i, t, b);
  for (int i : {kUpdate, kReset}) {
    if (o.reset_after) {
      const Values<C> q = values_of<C>(g.weights.recurrent_bias[i], units);
      for (Index j = 0; j < units; ++j) gate[i][j] += q[j];
    }
    add_recurrent(gate[i], g, i, b, h);
    for (C& v : gate[i]) v = activate(o.recurrent_activation, v);
  }
  const Values<C>&z = gate[kUpdate], &r = gate[kReset];
  Values<C>& c = gate[kCandidate];
  if (o.reset_after) {
    gh_c = values_of<C>(g.weights.recurrent_bias[kCandidate], units);
    add_recurrent(gh_c, g, kCandidate, b, h);
    for (Index j = 0; j < units; ++j) c[j] += r[j] * gh_c[j];
  } else {
    Values<C> reset_h(units);
    for (Index j = 0; j < units; ++j) reset_h[j] = r[j] * h[j];
    add_recurrent(c, g, kCandidate, b, reset_h);
  }
  for (Index j = 0; j < units; ++j) {
    c[j] = activate(o.activation, c[j]);
    h[j] = z[j] * h[j] + (1 - z[j]) * c[j];
  }
  for (int i = 0; i < kGruGates; ++i)
    write_row(row_of(g.reserve[i], t, b), gate[i]);
  write_row(row_of(g.reserve[kRecurrentCandidate], t, b), gh_c);
}

template <class C>
C clipped(C c, double clip) {
  return !(clip > 0) ? c : c < -clip ? C(-clip) : c > clip ? C(clip) : c;
}

template <class C, class T>
void lstm_step(const RnnForward<T>& g, Index t, Index b, States<C>& states) {
  const RnnOptions& o = g.options;
  const Index units = g.shape.units;
  Values<C> gate[kMaxGates], peephole[kMaxGates], co(units);
  for (int i = 0; i < kMaxGates; ++i) {
    gate[i] = projected<C>(g, i, t, b);
    add_recurrent(gate[i], g, i, b, states.h);
    peephole[i] = values_of<C>(g.weights.peephole[i], units);
  }
  for (Index j = 0; j < units; ++j) {
    C& c = states.c[j];
    const auto gate_of = [&](int i) {
      return activate(o.recurrent_activation, gate[i][j] + peephole[i][j] * c);
    };
    gate[kForget][j] += static_cast<C>(o.forget_bias);
    const C in = gate_of(kInput), forget = gate_of(kForget);
    const C input = activate(o.activation, gate[kCellInput][j]);
    c = clipped(forget * c + in * input, o.cell_clip);
    gate[kOutput][j] = gate_of(kOutput);
    gate[kInput][j] = in;
    gate[kForget][j] = forget;
    gate[kCellInput][j] = input;
    co[j] = activate(o.activation, c);
    states.h[j] = gate[kOutput][j] * co[j];
  }
  for (int i = 0; i < kMaxGates; ++i)
    write_row(row_of(g.reserve[i], t, b), gate[i]);
  write_row(row_of(g.reserve[kCellState], t, b), states.c);
  write_row(row_of(g.reserve[kCellOutput], t, b), co);
}

template <class C, class T>
void simple_step(const RnnForward<T>& g, Index t, Index b, States<C>& states) {
  Values<C> sum = projected<C>(g, 0, t, b);
  add_recurrent(sum, g, 0, b, states.h);
  for (C& v : sum) v = activate(g.options.activation, v);
  states.h = sum;
}

template <class C, class T>
void step(const RnnForward<T>& g, Index t, Index b, States<C>& states) {
  switch (g.options.cell) {
    case Cell::kGru:
      return gru_step(g, t, b, states);
    case Cell::kLstm:
      return lstm_step(g, t, b, states);
    case Cell::kSimpleRnn:
      return simple_step(g, t, b, states);
  }
}

// A step's values in the backward pass.
template <class C, class T>
struct Kept {
  const RnnBackward<T>& g;
  const Index t, b;

  Values<C> of(const Sequence<const T>& s) const {
    return values_of<C>(row_of(s, t, b), g.shape.units);
  }
  Values<C> operator[](int i) const { return of(g.reserve[i]); }
  Values<C> arriving(int i) const { return of(g.d_reserve[i]); }
  // d_gate·R_gᵀ∘m_g
  Values<C> through(int gate, const Values<C>& d) const {
    return dropped(
        times_transposed(d, g.weights.recurrent[gate], g.shape.units),
        row_of(g.recurrent_dropout[gate], b));
  }
  void put(int i, const Values<C>& d) const {
    write_row(row_of(g.d_gates[i], t, b), d);
  }
};

// Each turns what arrives at h_t (and c_t) into what arrives at the states
// before the step.
template <class C, class T>
void gru_back(const Kept<C, T>& kept, const States<C>& before, States<C>& d) {
  const RnnOptions& o = kept.g.options;
  const Index units = kept.g.shape.units;
  const Values<C>& h = before.h;
  const Values<C> z = kept[kUpdate], r = kept[kReset], c = kept[kCandidate],
                  gh = kept[kRecurrentCandidate];
  const Values<C> in_z = kept.arriving(kUpdate), in_r = kept.arriving(kReset),
                  in_c = kept.arriving(kCandidate);
  Values<C> d_z(units), d_r(units), d_c(units), d_gh(units), d_prev(units);
  for (Index j = 0; j < units; ++j) {
    d_z[j] = (d.h[j] * (h[j] - c[j]) + in_z[j]) *
             slope(o.recurrent_activation, z[j]);
    d_c[j] = (d.h[j] * (1 - z[j]) + in_c[j]) * slope(o.activation, c[j]);
    d_gh[j] = d_c[j] * r[j];
    d_prev[j] = d.h[j] * z[j];
  }
  const Values<C> back =
      kept.through(kCandidate, o.reset_after ? d_gh : d_c);
  for (Index j = 0; j < units; ++j) {
    const C d_reset = o.reset_after ? d_c[j] * gh[j] : back[j] * h[j];
    d_r[j] = (d_reset + in_r[j]) * slope(o.recurrent_activation, r[j]);
    d_prev[j] += o.reset_after ? back[j] : back[j] * r[j];
  }
  const Values<C> from_z = kept.through(kUpdate, d_z);
  const Values<C> from_r = kept.through(kReset, d_r);
  for (Index j = 0; j < units; ++j) d_prev[j] += from_z[j] + from_r[j];
  kept.put(kUpdate, d_z);
  kept.put(kReset, d_r);
  kept.put(kCandidate, d_c);
  if (o.reset_after) kept.put(kRecurrentCandidate, d_gh);
  d.h = d_prev;
}

template <class C, class T>
void lstm_back(const Kept<C, T>& kept, const States<C>& before, States<C>& d) {
  const RnnOptions& o = kept.g.options;
  const Index units = kept.g.shape.units;
  Values<C> gate[kMaxGates], arriving[kMaxReserve], peephole[kMaxGates],
      d_gate[kMaxGates];
  for (int i = 0; i < kMaxReserve; ++i) arriving[i] = kept.arriving(i);
  for (int i = 0; i < kMaxGates; ++i) {
    gate[i] = kept[i];
    peephole[i] = values_of<C>(kept.g.weights.peephole[i], units);
    d_gate[i].resize(units);
  }
  const Values<C> c = kept[kCellState];
  for (Index j = 0; j < units; ++j) {
    const auto put = [&](int i, C value, Activation f) {
      d_gate[i][j] = (value + arriving[i][j]) * slope(f, gate[i][j]);
    };
    const C co = activate(o.activation, c[j]);
    put(kOutput, d.h[j] * co, o.recurrent_activation);
    const C d_co = d.h[j] * gate[kOutput][j] + arriving[kCellOutput][j];
    C d_c = d.c[j] + arriving[kCellState][j] + d_co * slope(o.activation, co) +
            d_gate[kOutput][j] * peephole[kOutput][j];
    if (o.cell_clip > 0 && std::abs(c[j]) >= static_cast<C>(o.cell_clip))
      d_c = 0;
    put(kInput, d_c * gate[kCellInput][j], o.recurrent_activation);
    put(kForget, d_c * before.c[j], o.recurrent_activation);
    put(kCellInput, d_c * gate[kInput][j], o.activation);
    d.c[j] = d_c * gate[kForget][j] +
             d_gate[kInput][j] * peephole[kInput][j] +
             d_gate[kForget][j] * peephole[kForget][j];
  }
  std::fill(d.h.begin(), d.h.end(), C(0));
  for (int i = 0; i < kMaxGates; ++i) {
    const Values<C> back = kept.through(i, d_gate[i]);
    for (Index j = 0; j < units; ++j) d.h[j] += back[j];
    kept.put(i, d_gate[i]);
  }
}

template <class C, class T>
void simple_back(const Kept<C, T>& kept, States<C>& d) {
  const Values<C> h = kept.of(kept.g.outputs);
  Values<C> d_gate(h.size());
  for (std::size_t j = 0; j < h.size(); ++j)
    d_gate[j] = d.h[j] * slope(kept.g.options.activation, h[j]);
  kept.put(0, d_gate);
  d.h = kept.through(0, d_gate);
}

template <class C, class T>
void step_back(const Kept<C, T>& kept, const States<C>& before, States<C>& d) {
  switch (kept.g.options.cell) {
    case Cell::kGru:
      return gru_back(kept, before, d);
    case Cell::kLstm:
      return lstm_back(kept, before, d);
    case Cell::kSimpleRnn:
      return simple_back(kept, d);
  }
}

}  // namespace naive
}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CORE_NAIVE_CELLS_H_
