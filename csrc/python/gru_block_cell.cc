// The block cell of a GRU: checks, results, calls.
#include "python/block_cell.h"
#include "python/functions.h"

namespace fused_rnn {
namespace python {
namespace {

// The arguments of both functions, held against the sizes of x and h_prev.
struct GruCell {
  Argument x, h_prev, w_ru, w_c, b_ru, b_c;
  RnnShape shape;

  GruCell(py::handle x_, py::handle h_prev_, py::handle w_ru_, py::handle w_c_,
          py::handle b_ru_, py::handle b_c_)
      : x("x", x_),
        h_prev("h_prev", h_prev_, x),
        w_ru("w_ru", w_ru_, x),
        w_c("w_c", w_c_, x),
        b_ru("b_ru", b_ru_, x),
        b_c("b_c", b_c_, x),
        shape(block_shape(x, h_prev)) {
    const Index rows = shape.inputs + shape.units, units = shape.units;
    w_ru.require_shape("[input size + cell size, 2 * cell size]",
                       {rows, 2 * units});
    w_c.require_shape("[input size + cell size, cell size]", {rows, units});
    b_ru.require_shape("[2 * cell size]", {2 * units});
    b_c.require_shape("[cell size]", {units});
  }

  // What RnnForward and RnnBackward have in common.
  template <class T, class Call>
  void set_common(Call& call) const {
    call.shape = shape;
    call.h0 = h_prev.rows<T>();
    set_gate(call.weights, kReset, w_ru, b_ru, 0, shape);
    set_gate(call.weights, kUpdate, w_ru, b_ru, 1, shape);
    set_gate(call.weights, kCandidate, w_c, b_c, 0, shape);
  }
};

}  // namespace

py::tuple gru_block_cell(py::handle x, py::handle h_prev, py::handle w_ru,
                         py::handle w_c, py::handle b_ru, py::handle b_c) {
  return block_step(GruCell(x, h_prev, w_ru, w_c, b_ru, b_c),
                    {kReset, kUpdate, kCandidate});
}

py::tuple gru_block_cell_grad(py::handle x, py::handle h_prev, py::handle w_ru,
                              py::handle w_c, py::handle b_ru, py::handle b_c,
                              py::handle r_, py::handle u_, py::handle c_,
                              py::handle d_r_, py::handle d_u_,
                              py::handle d_c_, py::handle d_h_) {
  const GruCell cell(x, h_prev, w_ru, w_c, b_ru, b_c);
  const Index batch = cell.shape.batch, inputs = cell.shape.inputs,
              units = cell.shape.units;
  const Argument& first = cell.x;
  const Argument r("r", r_, first), u("u", u_, first), c("c", c_, first),
      d_r = Argument::optional("d_r", d_r_, first),
      d_u = Argument::optional("d_u", d_u_, first),
      d_c = Argument::optional("d_c", d_c_, first),
      d_h = Argument::optional("d_h", d_h_, first);
  for (const Argument* a : {&r, &u, &c, &d_r, &d_u, &d_c, &d_h}) {
    a->require_shape(kCellWords, {batch, units});
  }
  const Result d_x(first, {batch, inputs}), d_h_prev(first, {batch, units}),
      d_w_ru(first, {inputs + units, 2 * units}),
      d_w_c(first, {inputs + units, units}), d_b_ru(first, {2 * units}),
      d_b_c(first, {units}), d_c_bar(first, {batch, units}),
      d_r_bar_u_bar(first, {batch, 2 * units});
  if (is_empty(cell.shape)) {
    for (const Result* result : {&d_x, &d_w_ru, &d_w_c, &d_b_ru, &d_b_c}) {
      result->fill_zero();
    }
  } else {
    with_type(first.dtype(), [&](auto zero) {
      using T = decltype(zero);
      GradientCalls<T> calls;
      RnnBackward<T>& call = calls.back;
      cell.set_common<T>(call);
      call.reserve[kUpdate] = one_step<T>(u);
      call.reserve[kReset] = one_step<T>(r);
      call.reserve[kCandidate] = one_step<T>(c);
      call.d_state = d_h.rows<T>();
      call.d_reserve[kUpdate] = one_step<T>(d_u);
      call.d_reserve[kReset] = one_step<T>(d_r);
      call.d_reserve[kCandidate] = one_step<T>(d_c);
      call.d_h0 = {d_h_prev.data<T>(), units};
      const auto r_bar_u_bar = one_step<T>(d_r_bar_u_bar, 2 * units);
      call.d_gates[kReset] = slot(r_bar_u_bar, units, 0);
      call.d_gates[kUpdate] = slot(r_bar_u_bar, units, 1);
      call.d_gates[kCandidate] = one_step<T>(d_c_bar, units);
      connect(calls, cell.x, d_x);
      set_gate(calls.to_weights, kReset, d_w_ru, 2 * units, d_b_ru, 0);
      set_gate(calls.to_weights, kUpdate, d_w_ru, 2 * units, d_b_ru, 1);
      set_gate(calls.to_weights, kCandidate, d_w_c, units, d_b_c, 0);
      with_threads([&](const Threads& threads) { run(calls, threads); });
    });
  }
  return py::make_tuple(d_x.object(), d_h_prev.object(), d_w_ru.object(),
                        d_w_c.object(), d_b_ru.object(), d_b_c.object(),
                        d_c_bar.object(), d_r_bar_u_bar.object());
}

}  // namespace python
}  // namespace fused_rnn
