#include "python/gru_arguments.h"

#include <string>

#include "python/call.h"

namespace fused_rnn {
namespace python {
namespace {

constexpr char kStateWords[] = "[batch size, units]";

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

GruWeightArguments::GruWeightArguments(py::handle kernel_,
                                       py::handle recurrent_kernel_,
                                       py::handle bias_, bool reset_after_,
                                       const Argument* first)
    : kernel(first ? Argument("kernel", kernel_, *first)
                   : Argument("kernel", kernel_)),
      recurrent_kernel("recurrent_kernel", recurrent_kernel_, kernel),
      bias(Argument::optional("bias", bias_, kernel)),
      reset_after(reset_after_) {
  kernel.require_rank(2, "[input size, 3 * units]");
  recurrent_kernel.require_rank(2, "[units, 3 * units]");
  inputs = kernel.size(0);
  units = recurrent_kernel.size(0);
  const Index columns = kGruGates * units;
  recurrent_kernel.require_shape("[units, 3 * units]", {units, columns});
  kernel.require_shape("[input size, 3 * units]", {inputs, columns});
  if (reset_after) {
    bias.require_shape("[2, 3 * units] with reset_after", {2, columns});
  } else {
    bias.require_shape("[3 * units] without reset_after", {columns});
  }
}

GruArguments::GruArguments(py::handle x_, py::handle h0_, py::handle kernel,
                           py::handle recurrent_kernel, py::handle bias,
                           bool reset_after, py::handle mask_,
                           bool go_backwards_, bool time_major_,
                           bool zero_output_for_mask, py::handle activation,
                           py::handle recurrent_activation,
                           py::handle dropout_)
    : x("x", x_),
      weights(kernel, recurrent_kernel, bias, reset_after, &x),
      h0(Argument::optional("h0", h0_, x)),
      dropout(Argument::optional("recurrent_dropout_mask", dropout_, x)),
      mask("mask", mask_),
      go_backwards(go_backwards_),
      time_major(time_major_) {
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
  h0.require_shape(kStateWords, {shape.batch, shape.units});
  mask.require_shape("[batch size, steps]", {shape.batch, shape.steps});
  dropout.require_shape("[3, batch size, units]",
                        {kGruGates, shape.batch, shape.units});
  options.reset_after = reset_after;
  options.zero_output_for_mask = zero_output_for_mask;
  options.activation = parse_activation("activation", activation);
  options.recurrent_activation =
      parse_activation("recurrent_activation", recurrent_activation);
}

Result GruArguments::new_sequence(Index width) const {
  return time_major ? Result(x, {shape.steps, shape.batch, width})
                    : Result(x, {shape.batch, shape.steps, width});
}

void GruArguments::require_states(const Argument& a) const {
  if (time_major) {
    a.require_shape("[steps, batch size, units]",
                    {shape.steps, shape.batch, shape.units});
  } else {
    a.require_shape("[batch size, steps, units]",
                    {shape.batch, shape.steps, shape.units});
  }
}

Mask GruArguments::mask_view() const {
  if (!mask) return {};
  return in_x_order(Mask{mask.data(), mask.stride(1), mask.stride(0)});
}

}  // namespace python
}  // namespace fused_rnn
