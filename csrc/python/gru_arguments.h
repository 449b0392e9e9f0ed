// Arguments that the functions over sequences share, and how the core sees
// them.
#ifndef FUSED_RNN_PYTHON_GRU_ARGUMENTS_H_
#define FUSED_RNN_PYTHON_GRU_ARGUMENTS_H_

#include "core/rnn.h"
#include "python/arrays.h"

namespace fused_rnn {
namespace python {

// One of the names that Keras uses; ValueError for any other.
Activation parse_activation(const char* name, py::handle value);

// Keras' weights: gates z, r, c side by side.
struct GruWeightArguments {
  Argument kernel, recurrent_kernel, bias;
  Index inputs, units;
  bool reset_after;

  // Of the dtype of `first`, or of the kernel itself if null.
  GruWeightArguments(py::handle kernel, py::handle recurrent_kernel,
                     py::handle bias, bool reset_after, const Argument* first);

  template <class T>
  RnnWeights<T> views() const {
    RnnWeights<T> weights;
    for (int gate = 0; gate < kGruGates; ++gate) {
      weights.kernel[gate] = kernel.rows<T>();
      weights.kernel[gate].data += gate * units;
      weights.recurrent[gate] = recurrent_kernel.rows<T>();
      weights.recurrent[gate].data += gate * units;
      if (!bias) continue;
      weights.bias[gate] = bias.data<const T>() + gate * units;
      if (reset_after) {
        weights.recurrent_bias[gate] = weights.bias[gate] + bias.stride(0);
      }
    }
    return weights;
  }
};

// All but incoming gradients; held against the sizes of x and the weights.
struct GruArguments {
  // In Python's order: those of fused_rnn.numpy.gru up to the dropout mask.
  GruArguments(py::handle x, py::handle h0, py::handle kernel,
               py::handle recurrent_kernel, py::handle bias, bool reset_after,
               py::handle mask, bool go_backwards, bool time_major,
               bool zero_output_for_mask, py::handle activation,
               py::handle recurrent_activation, py::handle dropout);

  Argument x;
  GruWeightArguments weights;
  Argument h0, dropout;
  BoolArgument mask;
  bool go_backwards, time_major;
  RnnShape shape;
  RnnOptions options;

  // A new array [B, T, width], or [T, B, width] if time-major.
  Result new_sequence(Index width) const;
  // ValueError unless it is such an array of states. Absent is fine.
  void require_states(const Argument& a) const;

  // Sequences as they lie: in the order of processing, but for x and d_x.
  template <class T>
  Sequence<T> view(const Argument& a) const {
    return a.sequence<T>(time_major ? 0 : 1, time_major ? 1 : 0);
  }
  template <class T>
  Sequence<T> view(const Result& a, Index width) const {
    return time_major
               ? Sequence<T>{a.data<T>(), shape.batch * width, width}
               : Sequence<T>{a.data<T>(), width, shape.steps * width};
  }
  // A Sequence or Mask whose steps are processed as those of x are.
  template <class Steps>
  Steps in_x_order(Steps s) const {
    return go_backwards ? reversed(s, shape.steps) : s;
  }

  Mask mask_view() const;
  // RnnForward, RnnBackward, RnnWeightGradient: what they have in common.
  template <class T, class G>
  void set_common(G& g) const {
    g.shape = shape;
    g.options = options;
    g.h0 = h0.rows<T>();
    g.mask = mask_view();
    if (!dropout) return;
    for (int gate = 0; gate < kGruGates; ++gate) {
      g.recurrent_dropout[gate] = {
          dropout.data<const T>() + gate * dropout.stride(0),
          dropout.stride(1)};
    }
  }
};

}  // namespace python
}  // namespace fused_rnn

#endif  // FUSED_RNN_PYTHON_GRU_ARGUMENTS_H_
