// What the sequence kernels share: which cell, and the checks of their inputs.
#include "tf/rnn_kernels.h"

#include "absl/container/inlined_vector.h"

namespace fused_rnn::rnn_ops {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

absl::Status read_cell(const std::string& name, SequenceOp op, Cell* cell) {
  for (const Cell candidate : kCells) {
    if (op_name(candidate, op) != name) continue;
    *cell = candidate;
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat(name, " is no op of a cell"));
}

absl::Status read_activation(OpKernelConstruction* ctx, const char* name,
                             Activation* activation) {
  std::string value;
  TF_RETURN_IF_ERROR(ctx->GetAttr(name, &value));
  for (const auto& [known, result] : kActivations) {
    if (value == known) {
      *activation = result;
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is not known: ", value));
}

// Of empty tensors any size may be claimed. The products of these are the sizes
// of what the kernels allocate.
bool fits(std::initializer_list<Index> sizes) {
  Index product = 1;
  for (const Index size : sizes) {
    if (!multiply_sizes(product, size, &product)) return false;
  }
  return true;
}

}  // namespace

RnnKernel::RnnKernel(OpKernelConstruction* ctx, SequenceOp op,
                     const absl::Status& device)
    : OpKernel(ctx) {
  OP_REQUIRES_OK(ctx, device);
  OP_REQUIRES_OK(ctx, read_cell(type_string(), op, &options_.cell));
  OP_REQUIRES_OK(ctx, read_attributes(ctx, options_.cell, op, &at_));
  options_.reset_after = at_.reset_after;
  if (op != SequenceOp::kForward && op != SequenceOp::kGrad) return;
  OP_REQUIRES_OK(ctx, ctx->GetAttr("zero_output_for_mask",
                                   &options_.zero_output_for_mask));
  OP_REQUIRES_OK(ctx,
                 read_activation(ctx, "activation", &options_.activation));
  if (at_.cell == Cell::kSimpleRnn) return;
  OP_REQUIRES_OK(ctx, read_activation(ctx, "recurrent_activation",
                                      &options_.recurrent_activation));
}

void RnnKernel::Compute(OpKernelContext* ctx) {
  Sizes<Index> sizes;
  OP_REQUIRES_OK(ctx, check_inputs(ctx, &sizes));
  compute(ctx, sizes,
          {sizes[Size::kSteps], sizes[Size::kBatch], sizes[Size::kInputs],
           sizes[Size::kUnits]});
}

absl::Status RnnKernel::check_inputs(OpKernelContext* ctx,
                                     Sizes<Index>* all_sizes) const {
  Sizes<Index>& sizes = *all_sizes;
  sizes.fill(-1);
  const auto& inputs = at_.inputs;
  const auto explain = [&] {
    std::string text;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].states_sizes) continue;
      absl::StrAppend(&text, text.empty() ? " (" : ", ", inputs[i].name, " is ",
                      ctx->input(i).shape().DebugString());
    }
    return text + ")";
  };
  const int slots = slot_count(at_.cell);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].states_sizes) continue;
    const Tensor& tensor = ctx->input(i);
    const auto& shape = inputs[i].shape;
    if (tensor.dims() != static_cast<int>(shape.size())) {
      return absl::InvalidArgumentError(absl::StrCat(
          inputs[i].name, " must have shape ", inputs[i].words, ", got ",
          tensor.shape().DebugString()));
    }
    for (int d = 0; d < tensor.dims(); ++d) {
      if (sizes[shape[d]] < 0) sizes[shape[d]] = tensor.dim_size(d);
    }
  }
  // Where the recurrent kernel is no input, other kernels have seen it.
  if (sizes[Size::kUnits] < 0) {
    sizes[Size::kUnits] = sizes[Size::kSlots] / slots;
  }

  const Index steps = sizes[Size::kSteps], batch = sizes[Size::kBatch],
              input_size = sizes[Size::kInputs], units = sizes[Size::kUnits];
  const int columns = gate_count(at_.cell);
  if (!fits({steps, batch, input_size}) ||
      !fits({steps, batch, units, slots}) || !fits({batch, units, slots}) ||
      !fits({input_size, units, columns}) || !fits({units, units, columns})) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the numbers of elements of x, kernel, recurrent_kernel and ",
        slots == 1 ? "[steps, batch size, units]"
                   : "[steps, batch size, 4 * units]",
        " must be below 2^63", explain()));
  }
  sizes[Size::kTwo] = 2;
  sizes[Size::kColumns] = columns * units;
  sizes[Size::kSlots] = slots * units;
  sizes[Size::kOutputSteps] = sizes[Size::kReserveSteps] = steps;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& tensor = ctx->input(i);
    if (inputs[i].arg == Arg::kDropout) {
      const bool shared = tensor.dims() > 0 && tensor.dim_size(0) == 1;
      sizes[Size::kMasks] = shared ? 1 : columns;
    }
    absl::InlinedVector<Index, 3> expected;
    for (const Size size : inputs[i].shape) expected.push_back(sizes[size]);
    TF_RETURN_IF_ERROR(require_shape(tensor, inputs[i].name,
                                     inputs[i].words.c_str(), expected,
                                     explain));
  }
  return absl::OkStatus();
}

absl::Status RnnKernel::allocate(OpKernelContext* ctx,
                                 const Sizes<Index>& sizes, Arg output,
                                 std::initializer_list<Arg> replaced,
                                 Tensor** tensor) const {
  *tensor = nullptr;
  const int index = at_.output(output);
  if (index < 0) return absl::OkStatus();
  absl::InlinedVector<std::int64_t, 3> dims;
  for (const Size size : at_.outputs[index].shape) dims.push_back(sizes[size]);
  absl::InlinedVector<int, 2> candidates;
  for (const Arg input : replaced) {
    if (at_.input(input) >= 0) candidates.push_back(at_.input(input));
  }
  return ctx->forward_input_or_allocate_output(candidates, index,
                                               TensorShape(dims), tensor);
}

Mask RnnKernel::mask(OpKernelContext* ctx, const RnnShape& shape) const {
  const int index = at_.input(Arg::kMask);
  if (index < 0) return {};
  const auto* data =
      static_cast<const std::uint8_t*>(ctx->input(index).data());
  const Mask forward{data, 1, shape.steps};
  return at_.go_backwards ? reversed(forward, shape.steps) : forward;
}

}  // namespace fused_rnn::rnn_ops
