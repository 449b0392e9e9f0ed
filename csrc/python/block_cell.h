// What the functions of the block cells share: one step, with weights over
// [x h_prev] that hold several gates side by side.
#ifndef FUSED_RNN_PYTHON_BLOCK_CELL_H_
#define FUSED_RNN_PYTHON_BLOCK_CELL_H_

#include <initializer_list>
#include <optional>

#include "core/rnn.h"
#include "python/arrays.h"
#include "python/call.h"
#include "python/rnn_layout.h"

namespace fused_rnn {
namespace python {

constexpr char kCellWords[] = "[batch size, cell size]";

// The sizes of one step, taken from x and h_prev, which are checked.
inline RnnShape block_shape(const Argument& x, const Argument& h_prev) {
  require_valid_isa();
  x.require_rank(2, "[batch size, input size]");
  h_prev.require_rank(2, kCellWords);
  RnnShape shape;
  shape.steps = 1;
  shape.batch = x.size(0);
  shape.inputs = x.size(1);
  shape.units = h_prev.size(1);
  x.require_rows();
  h_prev.require_shape(kCellWords, {shape.batch, shape.units});
  return shape;
}

inline bool is_empty(const RnnShape& shape) {
  return shape.batch == 0 || shape.units == 0;
}

// One step as a sequence of one.
template <class T>
Sequence<const T> one_step(const Argument& a) {
  return a ? a.sequence<const T>(-1, 0) : Sequence<const T>{};
}
template <class T>
Sequence<T> one_step(const Result& a, Index row) {
  return {a.data<T>(), 0, row};
}

// A cell is its arguments, with members x and shape, and set_common<T>(call)
// for what RnnForward and RnnBackward have in common.

// One step: values of the reserve, in this order, then h.
template <class Cell, std::size_t kCount>
py::tuple block_step(const Cell& cell, const int (&values)[kCount]) {
  const RnnShape& shape = cell.shape;
  std::optional<Result> results[kCount + 1];
  py::tuple objects(kCount + 1);
  for (std::size_t i = 0; i <= kCount; ++i) {
    results[i].emplace(cell.x, std::initializer_list<Index>{shape.batch,
                                                            shape.units});
    objects[i] = results[i]->object();
  }
  if (is_empty(shape)) return objects;
  with_type(cell.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    RnnForward<T> call;
    cell.template set_common<T>(call);
    call.x = one_step<T>(cell.x);
    for (std::size_t i = 0; i < kCount; ++i) {
      call.reserve[values[i]] = one_step<T>(*results[i], shape.units);
    }
    const Result& h = *results[kCount];
    call.state = {h.data<T>(), shape.units};
    with_threads(
        [&](const Threads& threads) { run(&rnn_forward<T>, call, threads); });
  });
  return objects;
}

// What the gradient's calls share once `back` is complete.
template <class T>
void connect(GradientCalls<T>& calls, const Argument& x, const Result& d_x) {
  calls.share();
  calls.to_x.d_x = one_step<T>(d_x, calls.to_x.shape.inputs);
  calls.to_weights.x = one_step<T>(x);
}

// A gate's weights, and their gradients: the place-th columns of a matrix
// [I + H, n * H], whose rows of x precede those of the state, and of a bias.
template <class T>
void set_gate(RnnWeights<T>& weights, int gate, const Argument& matrix,
              const Argument& bias, int place, const RnnShape& shape) {
  const Index column = place * shape.units;
  weights.kernel[gate] = from_column(matrix.rows<T>(), column);
  weights.recurrent[gate] = from_column(
      weights.kernel[gate], shape.inputs * weights.kernel[gate].row);
  weights.bias[gate] = bias.data<const T>() + column;
}
template <class T>
void set_gate(RnnWeightGradient<T>& call, int gate, const Result& matrix,
              Index row, const Result& bias, int place) {
  const RnnShape& shape = call.shape;
  const Index column = place * shape.units;
  call.d_kernel[gate] = {matrix.data<T>() + column, row};
  call.d_recurrent[gate] =
      from_column(call.d_kernel[gate], shape.inputs * row);
  call.d_bias[gate] = bias.data<T>() + column;
}

}  // namespace python
}  // namespace fused_rnn

#endif  // FUSED_RNN_PYTHON_BLOCK_CELL_H_
