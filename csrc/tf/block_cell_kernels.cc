// The kernels of the block cells, for one step or a whole sequence.
#include "tf/block_cell_kernels.h"

#include <algorithm>

namespace fused_rnn {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

namespace {

Index size_of(const Axis& axis, const RnnShape& shape) {
  switch (axis.size) {
    case Size::kSteps:
      return shape.steps;
    case Size::kBatch:
      return shape.batch;
    case Size::kInputs:
      return shape.inputs;
    case Size::kUnits:
      return axis.times * shape.units;
    case Size::kRows:
      return shape.inputs + shape.units;
  }
  return 0;
}

absl::InlinedVector<Index, 3> sizes_of(const Argument& argument, bool sequence,
                                       const RnnShape& shape) {
  const Axes axes = axes_of(argument, sequence);
  absl::InlinedVector<Index, 3> sizes;
  for (int i = 0; i < axes.rank; ++i)
    sizes.push_back(size_of(axes.axis[i], shape));
  return sizes;
}

}  // namespace

BlockKernel::BlockKernel(OpKernelConstruction* ctx, const BlockOp& op)
    : OpKernel(ctx), op_(op) {
  const auto read = [&](const char* name, auto* value) {
    if (ctx->HasAttr(name)) OP_REQUIRES_OK(ctx, ctx->GetAttr(name, value));
  };
  read("use_peephole", &use_peephole_);
  read("forget_bias", &forget_bias_);
  read("cell_clip", &cell_clip_);
  const int missing = op.inputs.size - ctx->num_inputs();
  OP_REQUIRES(ctx, missing == 0 || missing == op.optional,
              absl::InvalidArgumentError(op.wrong_list(op.optional - missing)));
}

absl::Status BlockKernel::check_inputs(OpKernelContext* ctx,
                                       RnnShape* shape) const {
  const bool sequence = op_.sequence();
  // The sizes that the others must have, and where they come from.
  const int of_cell_state = op_.find(Role::kC);
  const int sources[] = {
      op_.find(Role::kX),
      of_cell_state >= 0 ? of_cell_state : op_.find(Role::kH)};
  for (const int i : sources) {
    const Axes axes = axes_of(op_.inputs[i], sequence);
    if (ctx->input(i).dims() != axes.rank) {
      return absl::InvalidArgumentError(absl::StrCat(
          op_.inputs[i].name, " must have shape ", axes.words(), ", got ",
          ctx->input(i).shape().DebugString()));
    }
  }
  const auto because = [&] {
    const auto text = [&](int i) {
      return absl::StrCat(op_.inputs[i].name, " is ",
                          ctx->input(i).shape().DebugString());
    };
    return absl::StrCat(" (", text(sources[0]), ", ", text(sources[1]), ")");
  };
  const Tensor& x = ctx->input(sources[0]);
  const int axis = x.dims() - 2;
  shape->steps = sequence ? x.dim_size(0) : 1;
  shape->batch = x.dim_size(axis);
  shape->inputs = x.dim_size(axis + 1);
  shape->units = ctx->input(sources[1]).dim_size(1);
  const int widest = op_.widest();
  // Of empty tensors any size may be claimed.
  Index rows, columns, states;
  if (!add_sizes(shape->inputs, shape->units, &rows) ||
      !multiply_sizes(widest, shape->units, &columns) ||
      !multiply_sizes(rows, columns, &rows) ||
      !multiply_sizes(shape->steps, shape->batch, &states) ||
      !multiply_sizes(states, columns, &states)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "(input size + cell size) * ", widest, " * cell size and ",
        sequence ? "steps * " : "", "batch size * ", widest,
        " * cell size must be below 2^63", because()));
  }
  for (int i = 0; i < ctx->num_inputs(); ++i) {
    const Argument& argument = op_.inputs[i];
    const auto sizes = sizes_of(argument, sequence, *shape);
    // Words are made on failure alone.
    if (!used(argument) || has_shape(ctx->input(i), sizes)) continue;
    return require_shape(ctx->input(i), argument.name,
                         axes_of(argument, sequence).words().c_str(), sizes,
                         because);
  }
  return absl::OkStatus();
}

absl::Status BlockKernel::read_steps(OpKernelContext* ctx,
                                     Index* steps) const {
  const int i = op_.find(Role::kSteps);
  if (i < 0) return absl::OkStatus();
  const auto wanted = ctx->input(i).scalar<std::int64_t>()();
  if (wanted < 0 || wanted > *steps) {
    return absl::InvalidArgumentError(
        absl::StrCat(op_.inputs[i].name, " must be between 0 and ", *steps,
                     ", the steps of x, got ", wanted));
  }
  *steps = wanted;
  return absl::OkStatus();
}

absl::Status BlockKernel::allocate(OpKernelContext* ctx, int output,
                                   const RnnShape& shape,
                                   std::initializer_list<Role> over,
                                   Tensor** tensor) const {
  const Argument& argument = op_.outputs[output];
  const TensorShape its_shape(sizes_of(argument, op_.sequence(), shape));
  absl::InlinedVector<int, 2> candidates;
  for (int i = 0; i < ctx->num_inputs(); ++i) {
    const Argument& input = op_.inputs[i];
    for (const Role role : over) {
      if (input.role == role && input.count == argument.count &&
          input.gates[0] == argument.gates[0])
        candidates.push_back(i);
    }
  }
  return ctx->forward_input_or_allocate_output(candidates, output, its_shape,
                                               tensor);
}

namespace {

template <class Device, class T, const BlockOp& kOp>
class BlockForwardOp : public BlockKernel {
 public:
  explicit BlockForwardOp(OpKernelConstruction* ctx) : BlockKernel(ctx, kOp) {
    OP_REQUIRES_OK(ctx, Device::check());
  }

  void Compute(OpKernelContext* ctx) override {
    RnnForward<CoreType<T>> call;
    OP_REQUIRES_OK(ctx, check_inputs(ctx, &call.shape));
    const RnnShape whole = call.shape;
    OP_REQUIRES_OK(ctx, read_steps(ctx, &call.shape.steps));
    call.options = options<T>();
    for (int i = 0; i < kOp.inputs.size; ++i) {
      const Argument& argument = kOp.inputs[i];
      if (argument.role == Role::kSteps) continue;
      const auto* data = input_data<T>(ctx->input(i));
      if (argument.role == Role::kX)
        call.x = {data, whole.batch * whole.inputs, whole.inputs};
      else if (argument.role == Role::kH)
        call.h0 = {data, whole.units};
      else if (argument.role == Role::kC)
        call.c0 = {data, whole.units};
      else if (used(argument))
        set_weights(argument, data, whole, &call.weights);
    }
    for (int i = 0; i < kOp.outputs.size; ++i) {
      const Argument& argument = kOp.outputs[i];
      // The core reads all of a row of a state before it writes the new one.
      const bool state =
          argument.role == Role::kH || argument.role == Role::kC;
      Tensor* tensor;
      OP_REQUIRES_OK(ctx, state ? allocate(ctx, i, whole, {argument.role},
                                           &tensor)
                                : allocate(ctx, i, whole, {}, &tensor));
      auto* data = output_data<T>(tensor);
      const auto rows = gate_rows(argument, data, 0, whole);
      if (argument.role == Role::kH)
        call.state = {data, whole.units};
      else if (argument.role == Role::kC)
        call.cell_state = {data, whole.units};
      else if (argument.role == Role::kOutputs)
        call.outputs = rows;
      else
        call.reserve[argument.gates[0]] = rows;
      const Index left_out = (whole.steps - call.shape.steps) * rows.step;
      OP_REQUIRES_OK(
          ctx, Device::zero(ctx, data + call.shape.steps * rows.step,
                            static_cast<std::size_t>(left_out) * sizeof(T)));
    }
    if (whole.batch * whole.units == 0 || call.shape.steps == 0) return;
    OP_REQUIRES_OK(ctx, Device::run(ctx, rnn_forward<CoreType<T>>, call));
  }
};

template <class Device, class T, const BlockOp& kOp>
class BlockCellGradOp : public BlockKernel {
 public:
  explicit BlockCellGradOp(OpKernelConstruction* ctx) : BlockKernel(ctx, kOp) {
    OP_REQUIRES_OK(ctx, Device::check());
  }

  void Compute(OpKernelContext* ctx) override {
    using Core = CoreType<T>;
    RnnBackward<Core> call;
    RnnInputGradient<Core> input_call;
    OP_REQUIRES_OK(ctx, check_inputs(ctx, &call.shape));
    const Index units = call.shape.units;
    call.options = options<T>();
    for (int i = 0; i < ctx->num_inputs(); ++i)
      set_input(kOp.inputs[i], input_data<T>(ctx->input(i)), &call);
    for (int i = 0; i < kOp.outputs.size; ++i) {
      const Argument& argument = kOp.outputs[i];
      Tensor* tensor;
      OP_REQUIRES_OK(ctx, allocate_gradient(ctx, i, call.shape, &tensor));
      auto* data = output_data<T>(tensor);
      if (argument.role == Role::kH) {
        call.d_h0 = {data, units};
      } else if (argument.role == Role::kC) {
        call.d_c0 = {data, units};
      } else if (argument.role == Role::kDGates) {
        for (int k = 0; k < argument.count; ++k) {
          const int gate = argument.gates[k];
          call.d_gates[gate] = gate_rows(argument, data, k, call.shape);
          input_call.d_gates[gate] =
              gate_rows<const Core>(argument, data, k, call.shape);
        }
      } else {
        input_call.d_x = {data, 0, call.shape.inputs};
        if (units == 0) {
          OP_REQUIRES_OK(
              ctx, Device::zero(ctx, tensor->data(), tensor->TotalBytes()));
        }
      }
    }
    if (call.shape.batch == 0 || units == 0) return;
    OP_REQUIRES_OK(ctx, Device::run(ctx, rnn_backward<Core>, call));
    if (call.shape.inputs == 0) return;
    input_call.shape = call.shape;
    input_call.options = call.options;
    input_call.weights = call.weights;
    OP_REQUIRES_OK(ctx, Device::run(ctx, rnn_input_gradient<Core>, input_call));
  }

 private:
  template <class Core>
  void set_input(const Argument& argument, const Core* data,
                 RnnBackward<Core>* call) const {
    const Index units = call->shape.units;
    switch (argument.role) {
      case Role::kH:
        call->h0 = {data, units};
        break;
      case Role::kC:
        call->c0 = {data, units};
        break;
      case Role::kReserve:
        call->reserve[argument.gates[0]] =
            gate_rows(argument, data, 0, call->shape);
        break;
      case Role::kDState:
        call->d_state = {data, units};
        break;
      case Role::kDCellState:
        call->d_cell_state = {data, units};
        break;
      case Role::kDReserve:
        call->d_reserve[argument.gates[0]] =
            gate_rows(argument, data, 0, call->shape);
        break;
      default:
        if (used(argument))
          set_weights(argument, data, call->shape, &call->weights);
    }
  }

  // The core reads x nowhere, and lets the others take the place of these.
  absl::Status allocate_gradient(OpKernelContext* ctx, int output,
                                 const RnnShape& shape, Tensor** tensor) const {
    switch (kOp.outputs[output].role) {
      case Role::kX:
        return allocate(ctx, output, shape, {Role::kX}, tensor);
      case Role::kH:
        return allocate(ctx, output, shape, {Role::kH, Role::kDState}, tensor);
      case Role::kC:
        return allocate(ctx, output, shape, {Role::kC, Role::kDCellState},
                        tensor);
      default:
        return allocate(ctx, output, shape, {Role::kReserve}, tensor);
    }
  }
};

template <class Device, class T, const BlockOp& kOp>
class BlockCellWeightGradOp : public BlockKernel {
 public:
  explicit BlockCellWeightGradOp(OpKernelConstruction* ctx)
      : BlockKernel(ctx, kOp) {
    OP_REQUIRES_OK(ctx, Device::check());
  }

  void Compute(OpKernelContext* ctx) override {
    using Core = CoreType<T>;
    RnnWeightGradient<Core> call;
    OP_REQUIRES_OK(ctx, check_inputs(ctx, &call.shape));
    const auto [steps, batch, inputs, units] = call.shape;
    call.options = options<T>();
    for (int i = 0; i < kOp.inputs.size; ++i) {
      const Argument& argument = kOp.inputs[i];
      const auto* data = input_data<T>(ctx->input(i));
      if (argument.role == Role::kX)
        call.x = {data, 0, inputs};
      else if (argument.role == Role::kH)
        call.h0 = {data, units};
      else if (argument.role == Role::kReserve)
        call.reset = gate_rows(argument, data, 0, call.shape);
      else
        for (int k = 0; k < argument.count; ++k)
          call.d_gates[argument.gates[k]] =
              gate_rows(argument, data, k, call.shape);
    }
    for (int i = 0; i < kOp.outputs.size; ++i) {
      const Argument& argument = kOp.outputs[i];
      Tensor* tensor;
      OP_REQUIRES_OK(ctx, allocate(ctx, i, call.shape, {}, &tensor));
      const Index row = argument.count * units;
      for (int k = 0; k < argument.count; ++k) {
        const int gate = argument.gates[k];
        Core* data = output_data<T>(tensor) + k * units;
        if (argument.role == Role::kBias) {
          call.d_bias[gate] = data;
          continue;
        }
        if (inputs > 0) call.d_kernel[gate] = {data, row};
        call.d_recurrent[gate] = {data + inputs * row, row};
      }
    }
    if (units == 0) return;
    OP_REQUIRES_OK(ctx, Device::run(ctx, rnn_weight_gradient<Core>, call));
  }
};

template <class Device, class T>
using GruBlockCellOp = BlockForwardOp<Device, T, kGruBlockCell>;
template <class Device, class T>
using GruBlockCellGradOp = BlockCellGradOp<Device, T, kGruBlockCellGrad>;
template <class Device, class T>
using GruBlockCellWeightGradOp =
    BlockCellWeightGradOp<Device, T, kGruBlockCellWeightGrad>;

FUSED_RNN_REGISTER("FusedRNN>GRUBlockCell", GruBlockCellOp)
FUSED_RNN_REGISTER("FusedRNN>GRUBlockCellGrad", GruBlockCellGradOp)
FUSED_RNN_REGISTER("FusedRNN>GRUBlockCellWeightGrad",
                   GruBlockCellWeightGradOp)
FUSED_RNN_TAKE_OVER("GRUBlockCell", GruBlockCellOp, float)
FUSED_RNN_TAKE_OVER("GRUBlockCellGrad", GruBlockCellGradOp, float)

template <class Device, class T>
using LstmBlockCellOp = BlockForwardOp<Device, T, kLstmBlockCell>;
template <class Device, class T>
using LstmBlockCellGradOp = BlockCellGradOp<Device, T, kLstmBlockCellGrad>;
template <class Device, class T>
using LstmBlockCellWeightGradOp =
    BlockCellWeightGradOp<Device, T, kLstmBlockCellWeightGrad>;
template <class Device, class T>
using BlockLstmOp = BlockForwardOp<Device, T, kBlockLstm>;
template <class Device, class T>
using BlockLstmV2Op = BlockForwardOp<Device, T, kBlockLstmV2>;

FUSED_RNN_REGISTER_CPU("FusedRNN>LSTMBlockCell", LstmBlockCellOp)
FUSED_RNN_REGISTER_CPU("FusedRNN>LSTMBlockCellGrad", LstmBlockCellGradOp)
FUSED_RNN_REGISTER_CPU("FusedRNN>LSTMBlockCellWeightGrad",
                       LstmBlockCellWeightGradOp)
FUSED_RNN_TAKE_OVER_CPU("LSTMBlockCell", LstmBlockCellOp, float)
FUSED_RNN_TAKE_OVER_CPU("LSTMBlockCell", LstmBlockCellOp, Eigen::half)
// The number of steps is read on the host.
FUSED_RNN_TAKE_OVER_CPU("BlockLSTM", BlockLstmOp, float)
FUSED_RNN_TAKE_OVER_CPU("BlockLSTM", BlockLstmOp, Eigen::half)
FUSED_RNN_TAKE_OVER_CPU("BlockLSTMV2", BlockLstmV2Op, float)
FUSED_RNN_TAKE_OVER_CPU("BlockLSTMV2", BlockLstmV2Op, Eigen::half)

}  // namespace
}  // namespace fused_rnn
