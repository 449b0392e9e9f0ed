// The block cell of an LSTM: checks, results, calls.
#include "python/block_cell.h"
#include "python/functions.h"

namespace fused_rnn {
namespace python {
namespace {

// The order in which TensorFlow's weights hold them.
constexpr int kOrder[] = {kInput, kCellInput, kForget, kOutput};

// The arguments of both functions, held against the sizes of x and h_prev.
struct LstmCell {
  Argument x, cs_prev, h_prev, w, wci, wcf, wco, b;
  RnnShape shape;
  RnnOptions options;

  // Peepholes are looked at only where they are used.
  LstmCell(py::handle x_, py::handle cs_prev_, py::handle h_prev_,
           py::handle w_, py::handle wci_, py::handle wcf_, py::handle wco_,
           py::handle b_, double cell_clip, bool use_peephole)
      : x("x", x_),
        cs_prev("cs_prev", cs_prev_, x),
        h_prev("h_prev", h_prev_, x),
        w("w", w_, x),
        wci(peephole("wci", wci_, use_peephole)),
        wcf(peephole("wcf", wcf_, use_peephole)),
        wco(peephole("wco", wco_, use_peephole)),
        b("b", b_, x),
        shape(block_shape(x, h_prev)) {
    options.cell = Cell::kLstm;
    options.cell_clip = cell_clip;
    const Index units = shape.units;
    cs_prev.require_shape(kCellWords, {shape.batch, units});
    w.require_shape("[input size + cell size, 4 * cell size]",
                    {shape.inputs + units, 4 * units});
    for (const Argument* a : {&wci, &wcf, &wco}) {
      a->require_shape("[cell size]", {units});
    }
    b.require_shape("[4 * cell size]", {4 * units});
  }

  // What RnnForward and RnnBackward have in common.
  template <class T, class Call>
  void set_common(Call& call) const {
    call.shape = shape;
    call.options = options;
    call.h0 = h_prev.rows<T>();
    call.c0 = cs_prev.rows<T>();
    for (int place = 0; place < 4; ++place) {
      set_gate(call.weights, kOrder[place], w, b, place, shape);
    }
    call.weights.peephole[kInput] = wci.data<const T>();
    call.weights.peephole[kForget] = wcf.data<const T>();
    call.weights.peephole[kOutput] = wco.data<const T>();
  }

 private:
  Argument peephole(const char* name, py::handle value, bool used) const {
    return used ? Argument(name, value, x) : Argument(name);
  }
};

}  // namespace

py::tuple lstm_block_cell(py::handle x, py::handle cs_prev, py::handle h_prev,
                          py::handle w, py::handle wci, py::handle wcf,
                          py::handle wco, py::handle b, double forget_bias,
                          double cell_clip, bool use_peephole) {
  LstmCell cell(x, cs_prev, h_prev, w, wci, wcf, wco, b, cell_clip,
                use_peephole);
  cell.options.forget_bias = forget_bias;
  return block_step(cell, {kInput, kCellState, kForget, kOutput, kCellInput,
                           kCellOutput});
}

py::tuple lstm_block_cell_grad(
    py::handle x, py::handle cs_prev, py::handle h_prev, py::handle w,
    py::handle wci, py::handle wcf, py::handle wco, py::handle b,
    py::handle i_, py::handle cs_, py::handle f_, py::handle o_,
    py::handle ci_, py::handle d_i_, py::handle d_cs_, py::handle d_f_,
    py::handle d_o_, py::handle d_ci_, py::handle d_co_, py::handle d_h_,
    double cell_clip, bool use_peephole) {
  const LstmCell cell(x, cs_prev, h_prev, w, wci, wcf, wco, b, cell_clip,
                      use_peephole);
  const Index batch = cell.shape.batch, inputs = cell.shape.inputs,
              units = cell.shape.units;
  const Argument& first = cell.x;
  const Argument i("i", i_, first), cs("cs", cs_, first), f("f", f_, first),
      o("o", o_, first), ci("ci", ci_, first),
      d_i = Argument::optional("d_i", d_i_, first),
      d_cs = Argument::optional("d_cs", d_cs_, first),
      d_f = Argument::optional("d_f", d_f_, first),
      d_o = Argument::optional("d_o", d_o_, first),
      d_ci = Argument::optional("d_ci", d_ci_, first),
      d_co = Argument::optional("d_co", d_co_, first),
      d_h = Argument::optional("d_h", d_h_, first);
  for (const Argument* a : {&i, &cs, &f, &o, &ci, &d_i, &d_cs, &d_f, &d_o,
                            &d_ci, &d_co, &d_h}) {
    a->require_shape(kCellWords, {batch, units});
  }
  const Result d_x(first, {batch, inputs}), d_cs_prev(first, {batch, units}),
      d_h_prev(first, {batch, units}), d_w(first, {inputs + units, 4 * units}),
      d_wci(first, {units}), d_wcf(first, {units}), d_wco(first, {units}),
      d_b(first, {4 * units}), d_gates_bar(first, {batch, 4 * units});
  if (is_empty(cell.shape)) {
    for (const Result* result : {&d_x, &d_w, &d_wci, &d_wcf, &d_wco, &d_b}) {
      result->fill_zero();
    }
  } else {
    with_type(first.dtype(), [&](auto zero) {
      using T = decltype(zero);
      GradientCalls<T> calls;
      RnnBackward<T>& call = calls.back;
      cell.set_common<T>(call);
      call.reserve[kInput] = one_step<T>(i);
      call.reserve[kForget] = one_step<T>(f);
      call.reserve[kCellInput] = one_step<T>(ci);
      call.reserve[kOutput] = one_step<T>(o);
      call.reserve[kCellState] = one_step<T>(cs);
      call.d_state = d_h.rows<T>();
      call.d_cell_state = d_cs.rows<T>();
      call.d_reserve[kInput] = one_step<T>(d_i);
      call.d_reserve[kForget] = one_step<T>(d_f);
      call.d_reserve[kCellInput] = one_step<T>(d_ci);
      call.d_reserve[kOutput] = one_step<T>(d_o);
      call.d_reserve[kCellOutput] = one_step<T>(d_co);
      call.d_h0 = {d_h_prev.data<T>(), units};
      call.d_c0 = {d_cs_prev.data<T>(), units};
      for (int place = 0; place < 4; ++place) {
        call.d_gates[kOrder[place]] =
            slot(one_step<T>(d_gates_bar, 4 * units), units, place);
      }
      connect(calls, cell.x, d_x);
      RnnWeightGradient<T>& to_weights = calls.to_weights;
      for (int place = 0; place < 4; ++place) {
        set_gate(to_weights, kOrder[place], d_w, 4 * units, d_b, place);
      }
      if (use_peephole) {
        to_weights.d_peephole[kInput] = d_wci.data<T>();
        to_weights.d_peephole[kForget] = d_wcf.data<T>();
        to_weights.d_peephole[kOutput] = d_wco.data<T>();
      }
      with_threads([&](const Threads& threads) { run(calls, threads); });
    });
  }
  const auto peephole = [&](const Result& d) {
    return use_peephole ? d.object() : py::none();
  };
  return py::make_tuple(d_x.object(), d_cs_prev.object(), d_h_prev.object(),
                        d_w.object(), peephole(d_wci), peephole(d_wcf),
                        peephole(d_wco), d_b.object(), d_gates_bar.object());
}

}  // namespace python
}  // namespace fused_rnn
