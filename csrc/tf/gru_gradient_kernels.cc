// The gradient kernels of the sequence.
#include "tf/gru_kernels.h"

namespace fused_rnn {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

template <class Device, class T>
class GruGradOp : public GruKernel {
 public:
  explicit GruGradOp(OpKernelConstruction* ctx)
      : GruKernel(ctx, SequenceOp::kGrad) {
    OP_REQUIRES_OK(ctx, Device::check());
  }

  void Compute(OpKernelContext* ctx) override {
    RnnShape shape;
    OP_REQUIRES_OK(ctx, check_inputs(ctx, &shape));
    const auto [steps, batch, inputs, units] = shape;
    const TensorShape state_shape({batch, units});
    Tensor *d_h0, *d_gates;
    OP_REQUIRES_OK(ctx, allocate_d_h0(ctx, state_shape, &d_h0));
    // The core allows each gate's gradient to replace the gate.
    const Tensor& reserve = ctx->input(at_.reserve);
    OP_REQUIRES_OK(ctx, ctx->forward_input_or_allocate_output(
                            {at_.reserve}, 1, reserve.shape(), &d_gates));
    if (state_shape.num_elements() == 0) return;

    using Core = CoreType<T>;
    const Core* kept = input_data<T>(reserve);
    Core* gradients = output_data<T>(d_gates);
    RnnBackward<Core> call;
    call.shape = shape;
    call.options = options_;
    set_recurrent<T>(ctx, shape, &call.weights);
    call.h0 = h0<T>(ctx, shape);
    call.outputs =
        sequence(input_data<T>(ctx->input(at_.outputs)), shape, units);
    for (int g = 0; g < gates(); ++g) {
      call.reserve[g] = slot(kept, shape, reserve_slot(g));
      call.d_gates[g] = slot(gradients, shape, g);
    }
    call.mask = mask(ctx, shape);
    set_dropout<T>(ctx, shape, call.recurrent_dropout);
    if (at_.d_outputs >= 0) {
      call.d_outputs =
          sequence(input_data<T>(ctx->input(at_.d_outputs)), shape, units);
    }
    if (at_.d_state >= 0) {
      call.d_state = {input_data<T>(ctx->input(at_.d_state)), units};
    }
    call.d_h0 = {output_data<T>(d_h0), units};
    OP_REQUIRES_OK(ctx, Device::run(ctx, rnn_backward<Core>, call));
    if (!options_.reset_after && kept != gradients) {
      const Index at = kKeptReset * units;
      OP_REQUIRES_OK(
          ctx, Device::copy(ctx, gradients + at, kept + at,
                            kGruReserve * units * sizeof(Core),
                            units * sizeof(Core), steps * batch));
    }
  }

 private:
  // The core allows d_h0 to replace h0 or d_state.
  absl::Status allocate_d_h0(OpKernelContext* ctx, const TensorShape& shape,
                             Tensor** d_h0) const {
    int candidates[2];
    int count = 0;
    for (const int input : {at_.d_state, at_.h0}) {
      if (input >= 0) candidates[count++] = input;
    }
    return ctx->forward_input_or_allocate_output(
        absl::MakeConstSpan(candidates, count), 0, shape, d_h0);
  }
};

template <class Device, class T>
class GruInputGradOp : public GruKernel {
 public:
  explicit GruInputGradOp(OpKernelConstruction* ctx)
      : GruKernel(ctx, SequenceOp::kInputGrad) {
    OP_REQUIRES_OK(ctx, Device::check());
  }

  void Compute(OpKernelContext* ctx) override {
    RnnShape shape;
    OP_REQUIRES_OK(ctx, check_inputs(ctx, &shape));
    Tensor* d_x;
    OP_REQUIRES_OK(
        ctx, ctx->allocate_output(
                 0, sequence_shape(shape.steps, shape.batch, shape.inputs),
                 &d_x));
    if (d_x->NumElements() == 0) return;
    using Core = CoreType<T>;
    RnnInputGradient<Core> call;
    call.shape = shape;
    set_kernel<T>(ctx, shape, &call.weights);
    call.mask = mask(ctx, shape);
    const Core* gradients = input_data<T>(ctx->input(at_.d_gates));
    for (int g = 0; g < kGruGates; ++g) {
      call.d_gates[g] = slot(gradients, shape, g);
    }
    call.d_x = reversible(output_data<T>(d_x), shape, shape.inputs);
    OP_REQUIRES_OK(ctx, Device::run(ctx, rnn_input_gradient<Core>, call));
  }
};

template <class Device, class T>
class GruWeightGradOp : public GruKernel {
 public:
  explicit GruWeightGradOp(OpKernelConstruction* ctx)
      : GruKernel(ctx, SequenceOp::kWeightGrad) {
    OP_REQUIRES_OK(ctx, Device::check());
  }

  void Compute(OpKernelContext* ctx) override {
    RnnShape shape;
    OP_REQUIRES_OK(ctx, check_inputs(ctx, &shape));
    const auto [steps, batch, inputs, units] = shape;
    const Index columns = kGruGates * units;
    Tensor *d_kernel, *d_recurrent_kernel, *d_bias = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(
                            0, TensorShape({inputs, columns}), &d_kernel));
    OP_REQUIRES_OK(ctx,
                   ctx->allocate_output(1, TensorShape({units, columns}),
                                        &d_recurrent_kernel));
    if (ctx->num_outputs() > 2) {
      OP_REQUIRES_OK(
          ctx, ctx->allocate_output(2, options_.reset_after
                                           ? TensorShape({2, columns})
                                           : TensorShape({columns}),
                                    &d_bias));
    }
    if (units == 0) return;

    using Core = CoreType<T>;
    RnnWeightGradient<Core> call;
    call.shape = shape;
    call.options = options_;
    call.x = reversible(input_data<T>(ctx->input(at_.x)), shape, inputs);
    call.h0 = h0<T>(ctx, shape);
    call.outputs =
        sequence(input_data<T>(ctx->input(at_.outputs)), shape, units);
    call.mask = mask(ctx, shape);
    set_dropout<T>(ctx, shape, call.recurrent_dropout);
    const Core* gradients = input_data<T>(ctx->input(at_.d_gates));
    if (!options_.reset_after) {
      call.reset = slot(gradients, shape, kKeptReset);
    }
    for (int g = 0; g < gates(); ++g) {
      call.d_gates[g] = slot(gradients, shape, g);
    }
    for (int g = 0; g < kGruGates; ++g) {
      const Index column = g * units;
      if (inputs > 0) {
        call.d_kernel[g] = {output_data<T>(d_kernel) + column, columns};
      }
      call.d_recurrent[g] = {output_data<T>(d_recurrent_kernel) + column,
                             columns};
      if (!d_bias) continue;
      call.d_bias[g] = output_data<T>(d_bias) + column;
      if (options_.reset_after) {
        call.d_recurrent_bias[g] = output_data<T>(d_bias) + columns + column;
      }
    }
    OP_REQUIRES_OK(ctx, Device::run(ctx, rnn_weight_gradient<Core>, call));
  }
};

FUSED_RNN_REGISTER("FusedRNN>GRUGrad", GruGradOp)
FUSED_RNN_REGISTER("FusedRNN>GRUInputGrad", GruInputGradOp)
FUSED_RNN_REGISTER("FusedRNN>GRUWeightGrad", GruWeightGradOp)

}  // namespace
}  // namespace fused_rnn
