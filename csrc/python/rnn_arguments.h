// Arguments that the functions over sequences share, and how the core sees
// them.
#ifndef FUSED_RNN_PYTHON_RNN_ARGUMENTS_H_
#define FUSED_RNN_PYTHON_RNN_ARGUMENTS_H_

#include "core/rnn.h"
#include "python/arrays.h"
#include "python/rnn_layout.h"

namespace fused_rnn {
namespace python {

// One of the names that Keras uses; ValueError for any other.
Activation parse_activation(const char* name, py::handle value);

// Keras' weights: gates side by side.
struct WeightArguments {
  Argument kernel, recurrent_kernel, bias;
  Index inputs, units;

  // Of the dtype of `first`, or of the kernel itself if null.
  WeightArguments(const RnnOptions& options, py::handle kernel,
                  py::handle recurrent_kernel, py::handle bias,
                  const Argument* first);

  template <class T>
  RnnWeights<T> views(const RnnOptions& options) const {
    return weight_views<T>(options, units, kernel.rows<T>(),
                           recurrent_kernel.rows<T>(), bias.rows<T>());
  }
};

// What Python passes: the arguments of fused_rnn.numpy's functions up to the
// dropout mask. None where a cell has no such argument.
struct GivenArguments {
  Cell cell;
  py::handle x, h0, c0, kernel, recurrent_kernel, bias;
  bool reset_after;
  py::handle mask;
  bool go_backwards, time_major, zero_output_for_mask;
  py::handle activation, recurrent_activation, dropout;
};

// The same, held against the sizes of x and the weights.
struct RnnArguments {
  explicit RnnArguments(const GivenArguments& given);

  RnnOptions options;
  Argument x;
  WeightArguments weights;
  Argument h0, c0, dropout;
  BoolArgument mask;
  bool go_backwards, time_major;
  RnnShape shape;

  // A new array [B, T, width], or [T, B, width] if time-major.
  Result new_sequence(Index width) const;
  // ValueError unless it is such an array of states, or one state. Absent is
  // fine.
  void require_states(const Argument& a) const;
  void require_state(const Argument& a) const;

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
  // What is kept for the gradient is time-major and has no gaps.
  template <class T>
  Sequence<T> kept_view(T* data, Index width) const {
    return {data, shape.batch * width, width};
  }
  // A Sequence or Mask whose steps are processed as those of x are.
  template <class Steps>
  Steps in_x_order(Steps s) const {
    return go_backwards ? reversed(s, shape.steps) : s;
  }

  // What RnnForward and RnnBackward have in common.
  template <class T, class Call>
  void set_common(Call& call) const {
    call.shape = shape;
    call.options = options;
    call.weights = weights.views<T>(options);
    call.h0 = h0.rows<T>();
    call.c0 = c0.rows<T>();
    call.mask = mask_view();
    set_dropout<T>(dropout, call);
  }

 private:
  Mask mask_view() const;
};

}  // namespace python
}  // namespace fused_rnn

#endif  // FUSED_RNN_PYTHON_RNN_ARGUMENTS_H_
