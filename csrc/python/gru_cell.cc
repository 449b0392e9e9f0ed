// The block cell: checks, results, calls. One step of the core.
#include "core/rnn.h"
#include "python/arrays.h"
#include "python/call.h"
#include "python/functions.h"

namespace fused_rnn {
namespace python {
namespace {

constexpr char kGateWords[] = "[batch size, cell size]";

// The arguments of both functions, held against the sizes of x and h_prev.
struct Cell {
  Argument x, h_prev, w_ru, w_c, b_ru, b_c;
  Index batch, inputs, units;

  Cell(py::handle x_, py::handle h_prev_, py::handle w_ru_, py::handle w_c_,
       py::handle b_ru_, py::handle b_c_)
      : x("x", x_),
        h_prev("h_prev", h_prev_, x),
        w_ru("w_ru", w_ru_, x),
        w_c("w_c", w_c_, x),
        b_ru("b_ru", b_ru_, x),
        b_c("b_c", b_c_, x) {
    require_valid_isa();
    x.require_rank(2, "[batch size, input size]");
    h_prev.require_rank(2, kGateWords);
    batch = x.size(0);
    inputs = x.size(1);
    units = h_prev.size(1);
    x.require_rows();
    h_prev.require_shape(kGateWords, {batch, units});
    w_ru.require_shape("[input size + cell size, 2 * cell size]",
                       {inputs + units, 2 * units});
    w_c.require_shape("[input size + cell size, cell size]",
                      {inputs + units, units});
    b_ru.require_shape("[2 * cell size]", {2 * units});
    b_c.require_shape("[cell size]", {units});
  }

  RnnShape shape() const {
    RnnShape shape;
    shape.steps = 1;
    shape.batch = batch;
    shape.inputs = inputs;
    shape.units = units;
    return shape;
  }

  // w_ru holds reset and update side by side; in both matrices the rows of x
  // precede those of the state.
  template <class T>
  RnnWeights<T> weights() const {
    RnnWeights<T> weights;
    weights.kernel[kReset] = w_ru.rows<T>();
    weights.kernel[kUpdate] = w_ru.rows<T>();
    weights.kernel[kUpdate].data += units;
    weights.kernel[kCandidate] = w_c.rows<T>();
    for (int gate = 0; gate < kGruGates; ++gate) {
      weights.recurrent[gate] = weights.kernel[gate];
      weights.recurrent[gate].data += inputs * weights.kernel[gate].row;
    }
    weights.bias[kReset] = b_ru.data<const T>();
    weights.bias[kUpdate] = b_ru.data<const T>() + units;
    weights.bias[kCandidate] = b_c.data<const T>();
    return weights;
  }
};

// One step as a sequence of one.
template <class T>
Sequence<const T> one_step(const Rows<const T>& rows) {
  return {rows.data, 0, rows.row};
}

}  // namespace

py::tuple gru_block_cell(py::handle x, py::handle h_prev, py::handle w_ru,
                         py::handle w_c, py::handle b_ru, py::handle b_c) {
  const Cell cell(x, h_prev, w_ru, w_c, b_ru, b_c);
  const Index units = cell.units;
  const Result r(cell.x, {cell.batch, units}), u(cell.x, {cell.batch, units}),
      c(cell.x, {cell.batch, units}), h(cell.x, {cell.batch, units});
  if (cell.batch > 0 && units > 0) {
    with_type(cell.x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      RnnForward<T> call;
      call.shape = cell.shape();
      call.x = cell.x.sequence<const T>(-1, 0);
      call.h0 = cell.h_prev.rows<T>();
      call.weights = cell.weights<T>();
      call.state = {h.data<T>(), units};
      call.reserve[kUpdate] = {u.data<T>(), 0, units};
      call.reserve[kReset] = {r.data<T>(), 0, units};
      call.reserve[kCandidate] = {c.data<T>(), 0, units};
      without_gil([&] {
        const CallThreads threads;
        run(&rnn_forward<T>, call, threads.threads());
      });
    });
  }
  return py::make_tuple(r.object(), u.object(), c.object(), h.object());
}

py::tuple gru_block_cell_grad(py::handle x, py::handle h_prev, py::handle w_ru,
                              py::handle w_c, py::handle b_ru, py::handle b_c,
                              py::handle r_, py::handle u_, py::handle c_,
                              py::handle d_r_, py::handle d_u_,
                              py::handle d_c_, py::handle d_h_) {
  const Cell cell(x, h_prev, w_ru, w_c, b_ru, b_c);
  const Index batch = cell.batch, inputs = cell.inputs, units = cell.units;
  const Argument& first = cell.x;
  const Argument r("r", r_, first), u("u", u_, first), c("c", c_, first),
      d_r = Argument::optional("d_r", d_r_, first),
      d_u = Argument::optional("d_u", d_u_, first),
      d_c = Argument::optional("d_c", d_c_, first),
      d_h = Argument::optional("d_h", d_h_, first);
  for (const Argument* a : {&r, &u, &c, &d_r, &d_u, &d_c, &d_h}) {
    a->require_shape(kGateWords, {batch, units});
  }
  const Result d_x(first, {batch, inputs}), d_h_prev(first, {batch, units}),
      d_w_ru(first, {inputs + units, 2 * units}),
      d_w_c(first, {inputs + units, units}), d_b_ru(first, {2 * units}),
      d_b_c(first, {units}), d_c_bar(first, {batch, units}),
      d_r_bar_u_bar(first, {batch, 2 * units});
  if (batch == 0 || units == 0) {
    for (const Result* result : {&d_x, &d_w_ru, &d_w_c, &d_b_ru, &d_b_c}) {
      result->fill_zero();
    }
  } else {
    with_type(first.dtype(), [&](auto zero) {
      using T = decltype(zero);
      RnnBackward<T> call;
      call.shape = cell.shape();
      call.weights = cell.weights<T>();
      call.h0 = cell.h_prev.rows<T>();
      call.reserve[kUpdate] = one_step(u.rows<T>());
      call.reserve[kReset] = one_step(r.rows<T>());
      call.reserve[kCandidate] = one_step(c.rows<T>());
      call.d_state = d_h.rows<T>();
      call.d_reserve[kUpdate] = one_step(d_u.rows<T>());
      call.d_reserve[kReset] = one_step(d_r.rows<T>());
      call.d_reserve[kCandidate] = one_step(d_c.rows<T>());
      call.d_h0 = {d_h_prev.data<T>(), units};
      call.d_gates[kUpdate] = {d_r_bar_u_bar.data<T>() + units, 0, 2 * units};
      call.d_gates[kReset] = {d_r_bar_u_bar.data<T>(), 0, 2 * units};
      call.d_gates[kCandidate] = {d_c_bar.data<T>(), 0, units};

      RnnInputGradient<T> to_x;
      to_x.shape = call.shape;
      to_x.weights = call.weights;
      to_x.d_x = {d_x.data<T>(), 0, inputs};
      RnnWeightGradient<T> to_weights;
      to_weights.shape = call.shape;
      to_weights.x = cell.x.sequence<const T>(-1, 0);
      to_weights.h0 = call.h0;
      to_weights.reset = call.reserve[kReset];
      T* const w_ru = d_w_ru.data<T>();
      to_weights.d_kernel[kReset] = {w_ru, 2 * units};
      to_weights.d_kernel[kUpdate] = {w_ru + units, 2 * units};
      to_weights.d_kernel[kCandidate] = {d_w_c.data<T>(), units};
      to_weights.d_bias[kReset] = d_b_ru.data<T>();
      to_weights.d_bias[kUpdate] = d_b_ru.data<T>() + units;
      to_weights.d_bias[kCandidate] = d_b_c.data<T>();
      for (int gate = 0; gate < kGruGates; ++gate) {
        const Sequence<T>& d = call.d_gates[gate];
        to_x.d_gates[gate] = {d.data, d.step, d.row};
        to_weights.d_gates[gate] = to_x.d_gates[gate];
        to_weights.d_recurrent[gate] = to_weights.d_kernel[gate];
        to_weights.d_recurrent[gate].data +=
            inputs * to_weights.d_kernel[gate].row;
      }
      without_gil([&] {
        const CallThreads threads;
        run(&rnn_backward<T>, call, threads.threads());
        run(&rnn_input_gradient<T>, to_x, threads.threads());
        run(&rnn_weight_gradient<T>, to_weights, threads.threads());
      });
    });
  }
  return py::make_tuple(d_x.object(), d_h_prev.object(), d_w_ru.object(),
                        d_w_c.object(), d_b_ru.object(), d_b_c.object(),
                        d_c_bar.object(), d_r_bar_u_bar.object());
}

}  // namespace python
}  // namespace fused_rnn
