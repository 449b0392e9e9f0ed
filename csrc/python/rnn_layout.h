// How Python's arrays hold weights, gates and their gradients, on the host and
// on a GPU alike: views of the core's gates in arrays that hold several.
#ifndef FUSED_RNN_PYTHON_RNN_LAYOUT_H_
#define FUSED_RNN_PYTHON_RNN_LAYOUT_H_

#include <algorithm>

#include "core/rnn.h"

namespace fused_rnn {
namespace python {

// How errors call shapes that depend on the number of gates.
struct GateWords {
  const char* kernel;
  const char* recurrent_kernel;
  const char* bias;
  const char* dropout;
  const char* gates;
};

inline const GateWords& gate_words(const RnnOptions& options) {
  static constexpr GateWords kGruAfter = {
      "[input size, 3 * units]", "[units, 3 * units]",
      "[2, 3 * units] with reset_after", "[3 or 1, batch size, units]",
      "[steps, batch size, 4 * units]"};
  static constexpr GateWords kGruBefore = {
      "[input size, 3 * units]", "[units, 3 * units]",
      "[3 * units] without reset_after", "[3 or 1, batch size, units]",
      "[steps, batch size, 4 * units]"};
  static constexpr GateWords kLstm = {
      "[input size, 4 * units]", "[units, 4 * units]", "[4 * units]",
      "[4 or 1, batch size, units]", "[steps, batch size, 4 * units]"};
  static constexpr GateWords kSimpleRnn = {
      "[input size, units]", "[units, units]", "[units]",
      "[1, batch size, units]", "[steps, batch size, units]"};
  switch (options.cell) {
    case Cell::kGru:
      return options.reset_after ? kGruAfter : kGruBefore;
    case Cell::kLstm:
      return kLstm;
    case Cell::kSimpleRnn:
      return kSimpleRnn;
  }
  return kSimpleRnn;
}

// Of Keras' weights: a gate's columns beside those of the others.
inline Index gate_columns(const RnnOptions& options, Index units) {
  return gate_count(options) * units;
}

// Gates that a step keeps for the gradient, and their gradients, lie side by
// side in an array [T, B, slots * H]. Reset before keeps r where reset after
// keeps gh_c: there it outlives a gradient that is computed in place.
constexpr int kKeptReset = kRecurrentCandidate;

inline int slot_count(const RnnOptions& options) {
  return options.cell == Cell::kGru ? kGruReserve : gate_count(options);
}
// Values of the reserve that lie in slots: all but an LSTM's cell states.
inline int kept_gates(const RnnOptions& options) {
  return std::min(reserve_count(options), gate_gradient_count(options));
}
inline int reserve_slot(const RnnOptions& options, int gate) {
  return two_stages(options) && gate == kReset ? kKeptReset : gate;
}
template <class T>
Sequence<T> slot(Sequence<T> all, Index units, int index) {
  if (all) all.data += index * units;
  return all;
}

template <class T>
Rows<T> from_column(Rows<T> rows, Index column) {
  if (rows) rows.data += column;
  return rows;
}
template <class T>
Sequence<const T> read_only(const Sequence<T>& s) {
  return {s.data, s.step, s.row};
}

// Of [I, G * H], [H, G * H] and [G * H] or, reset after, [2, G * H].
template <class T>
RnnWeights<T> weight_views(const RnnOptions& options, Index units,
                           Rows<const T> kernel, Rows<const T> recurrent,
                           Rows<const T> bias) {
  RnnWeights<T> weights;
  for (int gate = 0; gate < gate_count(options); ++gate) {
    weights.kernel[gate] = from_column(kernel, gate * units);
    weights.recurrent[gate] = from_column(recurrent, gate * units);
    if (!bias) continue;
    weights.bias[gate] = bias.data + gate * units;
    if (resets_after(options)) {
      weights.recurrent_bias[gate] = weights.bias[gate] + bias.row;
    }
  }
  return weights;
}

// Dropout masks: [G, B, H], or one for all gates, [1, B, H]. ValueError unless
// they are; absent is fine.
template <class Array>
void require_dropout(const Array& masks, const RnnOptions& options,
                     const RnnShape& shape) {
  const bool one = masks && masks.rank() == 3 && masks.size(0) == 1;
  masks.require_shape(gate_words(options).dropout,
                      {one ? 1 : gate_count(options), shape.batch,
                       shape.units});
}
template <class T, class Array, class Call>
void set_dropout(const Array& masks, Call& call) {
  for (int gate = 0; masks && gate < gate_count(call.options); ++gate) {
    // The stride of a single mask is 0.
    call.recurrent_dropout[gate] = {
        masks.template data<const T>() + gate * masks.stride(0),
        masks.stride(1)};
  }
}

// The calls that make up a gradient.
template <class T>
struct GradientCalls {
  RnnBackward<T> back;
  RnnInputGradient<T> to_x;
  RnnWeightGradient<T> to_weights;

  // Both in slots.
  void set_gates(const Sequence<const T>& reserve, const Sequence<T>& d_gates) {
    const RnnOptions& options = back.options;
    const Index units = back.shape.units;
    for (int gate = 0; gate < kept_gates(options); ++gate) {
      back.reserve[gate] = slot(reserve, units, reserve_slot(options, gate));
    }
    for (int gate = 0; gate < gate_gradient_count(options); ++gate) {
      back.d_gates[gate] = slot(d_gates, units, gate);
    }
  }
  // Of the weights' layout, null where not wanted.
  void set_weight_gradients(Rows<T> d_kernel, Rows<T> d_recurrent,
                            Rows<T> d_bias) {
    const Index units = back.shape.units;
    for (int gate = 0; gate < gate_count(back.options); ++gate) {
      to_weights.d_kernel[gate] = from_column(d_kernel, gate * units);
      to_weights.d_recurrent[gate] = from_column(d_recurrent, gate * units);
      if (!d_bias) continue;
      to_weights.d_bias[gate] = d_bias.data + gate * units;
      if (resets_after(back.options)) {
        to_weights.d_recurrent_bias[gate] =
            to_weights.d_bias[gate] + d_bias.row;
      }
    }
  }
  // Gives the other calls what `back` has.
  void share() {
    to_x.shape = to_weights.shape = back.shape;
    to_x.options = to_weights.options = back.options;
    to_x.mask = to_weights.mask = back.mask;
    to_x.weights = back.weights;
    to_weights.h0 = back.h0;
    to_weights.c0 = back.c0;
    to_weights.outputs = back.outputs;
    to_weights.cell_states = back.reserve[kCellState];
    if (two_stages(back.options)) to_weights.reset = back.reserve[kReset];
    for (int gate = 0; gate < kMaxGates; ++gate) {
      to_weights.recurrent_dropout[gate] = back.recurrent_dropout[gate];
      to_x.d_gates[gate] = read_only(back.d_gates[gate]);
      to_weights.d_gates[gate] = read_only(back.d_gates[gate]);
    }
  }
};

}  // namespace python
}  // namespace fused_rnn

#endif  // FUSED_RNN_PYTHON_RNN_LAYOUT_H_
