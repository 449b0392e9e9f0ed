// A sequence, forward and backward: results and calls.
#include <optional>

#include "core/rnn.h"
#include "python/call.h"
#include "python/functions.h"
#include "python/gru_arguments.h"

namespace fused_rnn {
namespace python {
namespace {

// What a step keeps for the gradient, [T, B, 4H], in four slots: z, r, c and
// gh_c. Reset before has no gh_c and keeps r there, where it outlives a
// gradient that is computed in place.
constexpr int kKeptReset = kRecurrentCandidate;

template <class T>
Sequence<T> slot(T* data, const RnnShape& shape, int index) {
  const Index row = kGruReserve * shape.units;
  return {data + index * shape.units, shape.batch * row, row};
}

int reserve_slot(const GruArguments& a, int gate) {
  return gate == kReset && !a.options.reset_after ? kKeptReset : gate;
}

int gates_of(const GruArguments& a) {
  return a.options.reset_after ? kGruReserve : kGruGates;
}

template <class T>
Sequence<const T> read_only(const Sequence<T>& s) {
  return {s.data, s.step, s.row};
}

// `outputs` and `reserve` may be null.
template <class T>
RnnForward<T> forward_call(const GruArguments& a, const Result* outputs,
                           const Result* state, const Result* reserve) {
  RnnForward<T> call;
  a.set_common<T>(call);
  call.x = a.in_x_order(a.view<const T>(a.x));
  call.weights = a.weights.views<T>();
  if (outputs) call.outputs = a.view<T>(*outputs, a.shape.units);
  if (state) call.state = {state->data<T>(), a.shape.units};
  for (int g = 0; reserve && g < gates_of(a); ++g) {
    call.reserve[g] = slot(reserve->data<T>(), a.shape, reserve_slot(a, g));
  }
  return call;
}

Result new_reserve(const GruArguments& a) {
  return Result(a.x, {a.shape.steps, a.shape.batch, kGruReserve * a.shape.units});
}

}  // namespace

py::tuple gru(py::handle x, py::handle h0, py::handle kernel,
              py::handle recurrent_kernel, py::handle bias, bool reset_after,
              py::handle mask, bool go_backwards, bool time_major,
              bool zero_output_for_mask, py::handle activation,
              py::handle recurrent_activation, py::handle dropout,
              bool want_outputs, bool want_reserve) {
  const GruArguments a(x, h0, kernel, recurrent_kernel, bias, reset_after, mask,
                       go_backwards, time_major, zero_output_for_mask,
                       activation, recurrent_activation, dropout);
  std::optional<Result> outputs, reserve;
  if (want_outputs) outputs = a.new_sequence(a.shape.units);
  if (want_reserve) reserve = new_reserve(a);
  const Result state(a.x, {a.shape.batch, a.shape.units});
  with_type(a.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto call =
        forward_call<T>(a, outputs ? &*outputs : nullptr, &state,
                        reserve ? &*reserve : nullptr);
    without_gil([&] {
      const CallThreads threads;
      run(&rnn_forward<T>, call, threads.threads());
    });
  });
  const auto object = [](const std::optional<Result>& result) {
    return result ? result->object() : py::none();
  };
  return py::make_tuple(object(outputs), state.object(), object(reserve));
}

py::tuple gru_grad(py::handle x, py::handle h0, py::handle kernel,
                   py::handle recurrent_kernel, py::handle bias,
                   bool reset_after, py::handle mask, bool go_backwards,
                   bool time_major, bool zero_output_for_mask,
                   py::handle activation, py::handle recurrent_activation,
                   py::handle dropout, py::handle outputs_,
                   py::handle reserve_, py::handle d_outputs_,
                   py::handle d_state_, bool overwrite_reserve) {
  const GruArguments a(x, h0, kernel, recurrent_kernel, bias, reset_after, mask,
                       go_backwards, time_major, zero_output_for_mask,
                       activation, recurrent_activation, dropout);
  const RnnShape& shape = a.shape;
  const Index units = shape.units, columns = kGruGates * units;
  const Argument d_outputs = Argument::optional("d_outputs", d_outputs_, a.x);
  const Argument d_state = Argument::optional("d_state", d_state_, a.x);
  a.require_states(d_outputs);
  d_state.require_shape("[batch size, units]", {shape.batch, units});

  // Of a forward pass that the caller kept, or of one made now.
  const bool kept = !reserve_.is_none();
  const Argument outputs = Argument::optional("outputs", outputs_, a.x);
  const Argument reserve = Argument::optional("reserve", reserve_, a.x);
  std::optional<Result> new_outputs, reserve_here;
  if (kept) {
    if (!outputs) throw py::value_error("outputs must come with the reserve");
    a.require_states(outputs);
    reserve.require_shape("[steps, batch size, 4 * units]",
                          {shape.steps, shape.batch, kGruReserve * units});
    reserve.require_whole();
    if (overwrite_reserve) reserve.require_writeable();
  } else {
    new_outputs = a.new_sequence(units);
    reserve_here = new_reserve(a);
  }
  // Where the gate gradients go: over the reserve where that is not needed any
  // more.
  std::optional<Result> gradients_here;
  if (kept && !overwrite_reserve) gradients_here = new_reserve(a);

  const Result d_x = a.new_sequence(shape.inputs);
  const Result d_h0(a.x, {shape.batch, units});
  const Result d_kernel(a.x, {shape.inputs, columns});
  const Result d_recurrent(a.x, {units, columns});
  std::optional<Result> d_bias;
  if (a.weights.bias) {
    d_bias = reset_after ? Result(a.x, {2, columns}) : Result(a.x, {columns});
  }
  with_type(a.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const gates = kept ? reserve.data<T>() : reserve_here->data<T>();
    T* const d_gates = gradients_here ? gradients_here->data<T>() : gates;

    RnnBackward<T> back;
    a.set_common<T>(back);
    back.weights = a.weights.views<T>();
    back.outputs = kept ? a.view<const T>(outputs)
                        : read_only(a.view<T>(*new_outputs, units));
    back.d_outputs = a.view<const T>(d_outputs);
    back.d_state = d_state.rows<T>();
    back.d_h0 = {d_h0.data<T>(), units};

    RnnInputGradient<T> to_x;
    to_x.shape = shape;
    to_x.weights = back.weights;
    to_x.mask = back.mask;
    to_x.d_x = a.in_x_order(a.view<T>(d_x, shape.inputs));

    RnnWeightGradient<T> to_weights;
    a.set_common<T>(to_weights);
    to_weights.x = a.in_x_order(a.view<const T>(a.x));
    to_weights.outputs = back.outputs;
    if (!reset_after) {
      to_weights.reset = read_only(slot(gates, shape, kKeptReset));
    }
    for (int g = 0; g < gates_of(a); ++g) {
      back.reserve[g] = read_only(slot(gates, shape, reserve_slot(a, g)));
      back.d_gates[g] = slot(d_gates, shape, g);
      to_weights.d_gates[g] = read_only(back.d_gates[g]);
    }
    for (int g = 0; g < kGruGates; ++g) {
      to_x.d_gates[g] = to_weights.d_gates[g];
      to_weights.d_kernel[g] = {d_kernel.data<T>() + g * units, columns};
      to_weights.d_recurrent[g] = {d_recurrent.data<T>() + g * units, columns};
      if (!d_bias) continue;
      to_weights.d_bias[g] = d_bias->data<T>() + g * units;
      if (reset_after) {
        to_weights.d_recurrent_bias[g] = to_weights.d_bias[g] + columns;
      }
    }
    without_gil([&] {
      const CallThreads threads;
      const Threads& t = threads.threads();
      if (!kept) {
        run(&rnn_forward<T>,
            forward_call<T>(a, &*new_outputs, nullptr, &*reserve_here), t);
      }
      run(&rnn_backward<T>, back, t);
      run(&rnn_input_gradient<T>, to_x, t);
      run(&rnn_weight_gradient<T>, to_weights, t);
    });
  });
  return py::make_tuple(d_x.object(), d_h0.object(), d_kernel.object(),
                        d_recurrent.object(),
                        d_bias ? d_bias->object() : py::none());
}

}  // namespace python
}  // namespace fused_rnn
