#include "python/rnn_arguments.h"

#include <string>

#include "python/call.h"

namespace fused_rnn {
namespace python {
namespace {

RnnOptions options_of(const GivenArguments& given) {
  RnnOptions options;
  options.cell = given.cell;
  options.reset_after = given.reset_after;
  options.zero_output_for_mask = given.zero_output_for_mask;
  options.activation = parse_activation("activation", given.activation);
  options.recurrent_activation =
      parse_activation("recurrent_activation", given.recurrent_activation);
  return options;
}

}  // namespace

Activation parse_activation(const char* name, py::handle value) {
  std::string known;
  for (const NamedActivation& one : kActivations) {
    if (py::isinstance<py::str>(value) && value.equal(py::str(one.name))) {
      return one.activation;
    }
    known += (known.empty() ? "" : ", ") + std::string(one.name);
  }
  throw py::value_error(std::string(name) + " must be one of " + known +
                        ", got " + std::string(py::repr(value)));
}

WeightArguments::WeightArguments(const RnnOptions& options, py::handle kernel_,
                                 py::handle recurrent_kernel_, py::handle bias_,
                                 const Argument* first)
    : kernel(first ? Argument("kernel", kernel_, *first)
                   : Argument("kernel", kernel_)),
      recurrent_kernel("recurrent_kernel", recurrent_kernel_, kernel),
      bias(Argument::optional("bias", bias_, kernel)) {
  const GateWords& words = gate_words(options);
  kernel.require_rank(2, words.kernel);
  recurrent_kernel.require_rank(2, words.recurrent_kernel);
  inputs = kernel.size(0);
  units = recurrent_kernel.size(0);
  const Index columns = gate_columns(options, units);
  recurrent_kernel.require_shape(words.recurrent_kernel, {units, columns});
  kernel.require_shape(words.kernel, {inputs, columns});
  if (resets_after(options)) {
    bias.require_shape(words.bias, {2, columns});
  } else {
    bias.require_shape(words.bias, {columns});
  }
}

RnnArguments::RnnArguments(const GivenArguments& given)
    : options(options_of(given)),
      x("x", given.x),
      weights(options, given.kernel, given.recurrent_kernel, given.bias, &x),
      h0(Argument::optional("h0", given.h0, x)),
      c0(Argument::optional("c0", given.c0, x)),
      dropout(Argument::optional("recurrent_dropout_mask", given.dropout, x)),
      mask("mask", given.mask),
      go_backwards(given.go_backwards),
      time_major(given.time_major) {
  require_valid_isa();
  const char* const words = time_major
                                ? "[steps, batch size, input size]"
                                : "[batch size, steps, input size]";
  x.require_rank(3, words);
  shape.steps = x.size(time_major ? 0 : 1);
  shape.batch = x.size(time_major ? 1 : 0);
  shape.inputs = weights.inputs;
  shape.units = weights.units;
  if (time_major) {
    x.require_shape(words, {shape.steps, shape.batch, shape.inputs});
  } else {
    x.require_shape(words, {shape.batch, shape.steps, shape.inputs});
  }
  require_state(h0);
  require_state(c0);
  mask.require_shape("[batch size, steps]", {shape.batch, shape.steps});
  require_dropout(dropout, options, shape);
}

Result RnnArguments::new_sequence(Index width) const {
  return time_major ? Result(x, {shape.steps, shape.batch, width})
                    : Result(x, {shape.batch, shape.steps, width});
}

void RnnArguments::require_states(const Argument& a) const {
  if (time_major) {
    a.require_shape("[steps, batch size, units]",
                    {shape.steps, shape.batch, shape.units});
  } else {
    a.require_shape("[batch size, steps, units]",
                    {shape.batch, shape.steps, shape.units});
  }
}

void RnnArguments::require_state(const Argument& a) const {
  a.require_shape("[batch size, units]", {shape.batch, shape.units});
}

Mask RnnArguments::mask_view() const {
  if (!mask) return {};
  return in_x_order(Mask{mask.data(), mask.stride(1), mask.stride(0)});
}

}  // namespace python
}  // namespace fused_rnn
