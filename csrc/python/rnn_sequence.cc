// A sequence, forward and backward: results and calls.
#include <optional>

#include "core/rnn.h"
#include "python/call.h"
#include "python/functions.h"
#include "python/rnn_arguments.h"

namespace fused_rnn {
namespace python {
namespace {

py::object object_or_none(const std::optional<Result>& result) {
  return result ? result->object() : py::none();
}

// What a forward pass keeps for the gradient: of a GRU and an LSTM their gates,
// of an LSTM its cell states.
struct Kept {
  std::optional<Result> gates, cell_states;
};

std::optional<Result> new_slots(const RnnArguments& a, bool wanted) {
  if (!wanted) return std::nullopt;
  return Result(a.x, {a.shape.steps, a.shape.batch,
                      slot_count(a.options) * a.shape.units});
}

Kept new_kept(const RnnArguments& a) {
  Kept kept;
  kept.gates = new_slots(a, kept_gates(a.options) > 0);
  if (has_cell_state(a.options)) {
    kept.cell_states =
        Result(a.x, {a.shape.steps, a.shape.batch, a.shape.units});
  }
  return kept;
}

template <class T>
Sequence<T> slots_view(const RnnArguments& a, T* data) {
  return a.kept_view(data, slot_count(a.options) * a.shape.units);
}

// Any result may be absent.
template <class T>
RnnForward<T> forward_call(const RnnArguments& a,
                           const std::optional<Result>& outputs,
                           const std::optional<Result>& state,
                           const std::optional<Result>& cell_state,
                           const Kept& kept) {
  const Index units = a.shape.units;
  RnnForward<T> call;
  a.set_common<T>(call);
  call.x = a.in_x_order(a.view<const T>(a.x));
  if (outputs) call.outputs = a.view<T>(*outputs, units);
  if (state) call.state = {state->data<T>(), units};
  if (cell_state) call.cell_state = {cell_state->data<T>(), units};
  for (int gate = 0; kept.gates && gate < kept_gates(a.options); ++gate) {
    call.reserve[gate] = slot(slots_view(a, kept.gates->data<T>()), units,
                              reserve_slot(a.options, gate));
  }
  if (kept.cell_states) {
    call.reserve[kCellState] = a.kept_view(kept.cell_states->data<T>(), units);
  }
  return call;
}

// What the caller kept of a forward pass, and hands back.
struct HandedBack {
  Argument outputs, gates, cell_states;

  HandedBack(const RnnArguments& a, py::handle outputs_, py::handle gates_,
             py::handle cell_states_, bool overwrite)
      : outputs("outputs", outputs_, a.x),
        gates(kept_gates(a.options) > 0 ? Argument("reserve", gates_, a.x)
                                        : Argument("reserve")),
        cell_states(has_cell_state(a.options)
                        ? Argument("cell_states", cell_states_, a.x)
                        : Argument("cell_states")) {
    const RnnShape& shape = a.shape;
    a.require_states(outputs);
    gates.require_shape(
        gate_words(a.options).gates,
        {shape.steps, shape.batch, slot_count(a.options) * shape.units});
    cell_states.require_shape("[steps, batch size, units]",
                              {shape.steps, shape.batch, shape.units});
    if (gates) gates.require_whole();
    if (cell_states) cell_states.require_whole();
    if (gates && overwrite) gates.require_writeable();
  }
};

}  // namespace

py::tuple rnn(const GivenArguments& given, bool want_outputs,
              bool want_reserve) {
  const RnnArguments a(given);
  const RnnShape& shape = a.shape;
  std::optional<Result> outputs, state, cell_state;
  if (want_outputs) outputs = a.new_sequence(shape.units);
  state = Result(a.x, {shape.batch, shape.units});
  if (has_cell_state(a.options)) {
    cell_state = Result(a.x, {shape.batch, shape.units});
  }
  const Kept kept = want_reserve ? new_kept(a) : Kept{};
  with_type(a.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto call = forward_call<T>(a, outputs, state, cell_state, kept);
    with_threads(
        [&](const Threads& threads) { run(&rnn_forward<T>, call, threads); });
  });
  return py::make_tuple(object_or_none(outputs), state->object(),
                        object_or_none(cell_state), object_or_none(kept.gates),
                        object_or_none(kept.cell_states));
}

py::tuple rnn_grad(const GivenArguments& given, py::handle outputs,
                   py::handle gates, py::handle cell_states,
                   py::handle d_outputs_, py::handle d_state_,
                   py::handle d_cell_state_, bool overwrite_reserve) {
  const RnnArguments a(given);
  const RnnShape& shape = a.shape;
  const Index units = shape.units, columns = gate_columns(a.options, units);
  const Argument d_outputs = Argument::optional("d_outputs", d_outputs_, a.x);
  const Argument d_state = Argument::optional("d_state", d_state_, a.x);
  const Argument d_cell_state =
      Argument::optional("d_cell_state", d_cell_state_, a.x);
  a.require_states(d_outputs);
  a.require_state(d_state);
  a.require_state(d_cell_state);

  // Of a forward pass that the caller kept, or of one made now.
  std::optional<HandedBack> back;
  std::optional<Result> new_outputs;
  Kept kept;
  if (outputs.is_none() && gates.is_none() && cell_states.is_none()) {
    new_outputs = a.new_sequence(units);
    kept = new_kept(a);
  } else {
    back.emplace(a, outputs, gates, cell_states, overwrite_reserve);
  }
  // Where the gate gradients go: over the reserve where that is not needed any
  // more.
  const bool in_place = kept.gates || (back && back->gates && overwrite_reserve);
  const std::optional<Result> own_d_gates = new_slots(a, !in_place);

  const Result d_x = a.new_sequence(shape.inputs);
  const Result d_h0(a.x, {shape.batch, units});
  std::optional<Result> d_c0, d_bias;
  if (has_cell_state(a.options)) d_c0 = Result(a.x, {shape.batch, units});
  const Result d_kernel(a.x, {shape.inputs, columns});
  const Result d_recurrent(a.x, {units, columns});
  if (a.weights.bias) {
    d_bias = resets_after(a.options) ? Result(a.x, {2, columns})
                                     : Result(a.x, {columns});
  }
  with_type(a.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const kept_gates = back ? back->gates.data<T>()
                          : kept.gates ? kept.gates->data<T>()
                                       : nullptr;
    T* const d_gates = own_d_gates ? own_d_gates->data<T>() : kept_gates;

    GradientCalls<T> calls;
    RnnBackward<T>& call = calls.back;
    a.set_common<T>(call);
    call.outputs = back ? a.view<const T>(back->outputs)
                        : read_only(a.view<T>(*new_outputs, units));
    if (back && back->cell_states) {
      call.reserve[kCellState] =
          a.kept_view(back->cell_states.data<const T>(), units);
    } else if (kept.cell_states) {
      call.reserve[kCellState] =
          a.kept_view(kept.cell_states->data<const T>(), units);
    }
    calls.set_gates(slots_view<const T>(a, kept_gates), slots_view(a, d_gates));
    call.d_outputs = a.view<const T>(d_outputs);
    call.d_state = d_state.rows<T>();
    call.d_cell_state = d_cell_state.rows<T>();
    call.d_h0 = {d_h0.data<T>(), units};
    if (d_c0) call.d_c0 = {d_c0->data<T>(), units};
    calls.share();
    calls.to_x.d_x = a.in_x_order(a.view<T>(d_x, shape.inputs));
    calls.to_weights.x = a.in_x_order(a.view<const T>(a.x));
    calls.set_weight_gradients(
        {d_kernel.data<T>(), columns}, {d_recurrent.data<T>(), columns},
        {d_bias ? d_bias->data<T>() : nullptr, columns});
    with_threads([&](const Threads& threads) {
      if (!back) {
        run(&rnn_forward<T>,
            forward_call<T>(a, new_outputs, std::nullopt, std::nullopt, kept),
            threads);
      }
      run(calls, threads);
    });
  });
  return py::make_tuple(d_x.object(), d_h0.object(), object_or_none(d_c0),
                        d_kernel.object(), d_recurrent.object(),
                        object_or_none(d_bias));
}

}  // namespace python
}  // namespace fused_rnn
