// The gradient kernels of a sequence.
#include "tf/rnn_kernels.h"

namespace fused_rnn::rnn_ops {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

template <class Device, class T>
class RnnGradOp : public RnnKernel {
 public:
  explicit RnnGradOp(OpKernelConstruction* ctx)
      : RnnKernel(ctx, SequenceOp::kGrad, Device::check()) {}

 protected:
  void compute(OpKernelContext* ctx, Sizes<Index> sizes,
               const RnnShape& shape) override {
    Tensor *d_h0, *d_c0, *d_gates;
    // The core allows the first states' gradients to replace these, and each
    // gate's gradient to replace the gate.
    OP_REQUIRES_OK(ctx, allocate(ctx, sizes, Arg::kDH0,
                                 {Arg::kDState, Arg::kH0}, &d_h0));
    OP_REQUIRES_OK(ctx, allocate(ctx, sizes, Arg::kDC0,
                                 {Arg::kDCellState, Arg::kC0}, &d_c0));
    OP_REQUIRES_OK(
        ctx, allocate(ctx, sizes, Arg::kDGates, {Arg::kReserve}, &d_gates));
    if (d_h0->NumElements() == 0) return;

    using Core = CoreType<T>;
    const Core* reserve = data<T>(ctx, Arg::kReserve);
    Core* gradients = data<T>(d_gates);
    RnnBackward<Core> call;
    call.shape = shape;
    call.options = options_;
    set_columns(data<T>(ctx, Arg::kRecurrentKernel), shape,
                call.weights.recurrent);
    call.h0 = rows<T>(ctx, Arg::kH0, shape);
    call.c0 = rows<T>(ctx, Arg::kC0, shape);
    call.outputs = sequence(data<T>(ctx, Arg::kOutputs), shape, shape.units);
    set_reserve(reserve, data<T>(ctx, Arg::kCellStates), shape, call.reserve);
    set_gate_gradients(gradients, shape, call.d_gates);
    call.mask = mask(ctx, shape);
    set_dropout<T>(ctx, shape, call.recurrent_dropout);
    call.d_outputs =
        sequence(data<T>(ctx, Arg::kDOutputs), shape, shape.units);
    call.d_state = rows<T>(ctx, Arg::kDState, shape);
    call.d_cell_state = rows<T>(ctx, Arg::kDCellState, shape);
    call.d_h0 = {data<T>(d_h0), shape.units};
    call.d_c0 = {data<T>(d_c0), shape.units};
    OP_REQUIRES_OK(ctx, Device::run(ctx, rnn_backward<Core>, call));
    if (keeps_reset() && reserve != gradients) {
      const Index at = kKeptReset * shape.units;
      OP_REQUIRES_OK(
          ctx, Device::copy(ctx, gradients + at, reserve + at,
                            slot_count(at_.cell) * shape.units * sizeof(Core),
                            shape.units * sizeof(Core),
                            shape.steps * shape.batch));
    }
  }
};

template <class Device, class T>
class RnnInputGradOp : public RnnKernel {
 public:
  explicit RnnInputGradOp(OpKernelConstruction* ctx)
      : RnnKernel(ctx, SequenceOp::kInputGrad, Device::check()) {}

 protected:
  void compute(OpKernelContext* ctx, Sizes<Index> sizes,
               const RnnShape& shape) override {
    Tensor* d_x;
    OP_REQUIRES_OK(ctx, allocate(ctx, sizes, Arg::kDX, {}, &d_x));
    if (d_x->NumElements() == 0) return;
    using Core = CoreType<T>;
    RnnInputGradient<Core> call;
    call.shape = shape;
    call.options = options_;
    set_columns(data<T>(ctx, Arg::kKernel), shape, call.weights.kernel);
    call.mask = mask(ctx, shape);
    set_gate_gradients(data<T>(ctx, Arg::kDGates), shape, call.d_gates);
    call.d_x = reversible(data<T>(d_x), shape, shape.inputs);
    OP_REQUIRES_OK(ctx, Device::run(ctx, rnn_input_gradient<Core>, call));
  }
};

template <class Device, class T>
class RnnWeightGradOp : public RnnKernel {
 public:
  explicit RnnWeightGradOp(OpKernelConstruction* ctx)
      : RnnKernel(ctx, SequenceOp::kWeightGrad, Device::check()) {}

 protected:
  void compute(OpKernelContext* ctx, Sizes<Index> sizes,
               const RnnShape& shape) override {
    Tensor *d_kernel, *d_recurrent_kernel, *d_bias;
    OP_REQUIRES_OK(ctx, allocate(ctx, sizes, Arg::kDKernel, {}, &d_kernel));
    OP_REQUIRES_OK(ctx, allocate(ctx, sizes, Arg::kDRecurrentKernel, {},
                                 &d_recurrent_kernel));
    OP_REQUIRES_OK(ctx, allocate(ctx, sizes, Arg::kDBias, {}, &d_bias));
    if (shape.units == 0) return;

    using Core = CoreType<T>;
    RnnWeightGradient<Core> call;
    call.shape = shape;
    call.options = options_;
    call.x = reversible(data<T>(ctx, Arg::kX), shape, shape.inputs);
    call.h0 = rows<T>(ctx, Arg::kH0, shape);
    call.outputs = sequence(data<T>(ctx, Arg::kOutputs), shape, shape.units);
    call.mask = mask(ctx, shape);
    set_dropout<T>(ctx, shape, call.recurrent_dropout);
    const Core* gradients = data<T>(ctx, Arg::kDGates);
    if (keeps_reset()) call.reset = slot(gradients, shape, kKeptReset);
    set_gate_gradients(gradients, shape, call.d_gates);
    if (shape.inputs > 0) {
      set_columns(data<T>(d_kernel), shape, call.d_kernel);
    }
    set_columns(data<T>(d_recurrent_kernel), shape, call.d_recurrent);
    set_bias(data<T>(d_bias), shape, call.d_bias, call.d_recurrent_bias);
    OP_REQUIRES_OK(ctx, Device::run(ctx, rnn_weight_gradient<Core>, call));
  }
};

FUSED_RNN_REGISTER("FusedRNN>GRUGrad", RnnGradOp)
FUSED_RNN_REGISTER("FusedRNN>GRUInputGrad", RnnInputGradOp)
FUSED_RNN_REGISTER("FusedRNN>GRUWeightGrad", RnnWeightGradOp)
FUSED_RNN_REGISTER("FusedRNN>LSTMGrad", RnnGradOp)
FUSED_RNN_REGISTER("FusedRNN>LSTMInputGrad", RnnInputGradOp)
FUSED_RNN_REGISTER("FusedRNN>LSTMWeightGrad", RnnWeightGradOp)
FUSED_RNN_REGISTER("FusedRNN>SimpleRNNGrad", RnnGradOp)
FUSED_RNN_REGISTER("FusedRNN>SimpleRNNInputGrad", RnnInputGradOp)
FUSED_RNN_REGISTER("FusedRNN>SimpleRNNWeightGrad", RnnWeightGradOp)

}  // namespace
}  // namespace fused_rnn::rnn_ops
