// The forward kernel of a sequence.
#include "tf/rnn_kernels.h"

namespace fused_rnn::rnn_ops {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

template <class Device, class T>
class RnnOp : public RnnKernel {
 public:
  explicit RnnOp(OpKernelConstruction* ctx)
      : RnnKernel(ctx, SequenceOp::kForward, Device::check()) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("return_sequences", &keep_outputs_));
    // What a gradient reads again: a simple RNN's outputs, or the reserve too.
    if (at_.output(Arg::kReserve) < 0) return;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("keep_reserve", &keep_reserve_));
    keep_outputs_ = keep_outputs_ || keep_reserve_;
  }

 protected:
  void compute(OpKernelContext* ctx, Sizes<Index> sizes,
               const RnnShape& shape) override {
    if (!keep_outputs_) sizes[Size::kOutputSteps] = 0;
    if (!keep_reserve_) sizes[Size::kReserveSteps] = 0;
    Tensor *outputs, *state, *cell_state, *cell_states, *reserve;
    OP_REQUIRES_OK(ctx, allocate(ctx, sizes, Arg::kOutputs, {}, &outputs));
    // The core allows the last states to replace the first.
    OP_REQUIRES_OK(ctx, allocate(ctx, sizes, Arg::kState, {Arg::kH0}, &state));
    OP_REQUIRES_OK(ctx, allocate(ctx, sizes, Arg::kCellState, {Arg::kC0},
                                 &cell_state));
    OP_REQUIRES_OK(ctx,
                   allocate(ctx, sizes, Arg::kCellStates, {}, &cell_states));
    OP_REQUIRES_OK(ctx, allocate(ctx, sizes, Arg::kReserve, {}, &reserve));
    if (state->NumElements() == 0) return;

    using Core = CoreType<T>;
    RnnForward<Core> call;
    call.shape = shape;
    call.options = options_;
    call.x = reversible(data<T>(ctx, Arg::kX), shape, shape.inputs);
    call.h0 = rows<T>(ctx, Arg::kH0, shape);
    call.c0 = rows<T>(ctx, Arg::kC0, shape);
    set_columns(data<T>(ctx, Arg::kKernel), shape, call.weights.kernel);
    set_columns(data<T>(ctx, Arg::kRecurrentKernel), shape,
                call.weights.recurrent);
    set_bias(data<T>(ctx, Arg::kBias), shape, call.weights.bias,
             call.weights.recurrent_bias);
    call.mask = mask(ctx, shape);
    set_dropout<T>(ctx, shape, call.recurrent_dropout);
    if (keep_outputs_) {
      call.outputs = sequence(data<T>(outputs), shape, shape.units);
    }
    call.state = {data<T>(state), shape.units};
    call.cell_state = {data<T>(cell_state), shape.units};
    if (keep_reserve_) {
      set_reserve(data<T>(reserve), data<T>(cell_states), shape, call.reserve);
    }
    OP_REQUIRES_OK(ctx, Device::run(ctx, rnn_forward<Core>, call));
  }

 private:
  bool keep_outputs_ = true;
  bool keep_reserve_ = false;
};

FUSED_RNN_REGISTER("FusedRNN>GRU", RnnOp)
FUSED_RNN_REGISTER("FusedRNN>LSTM", RnnOp)
FUSED_RNN_REGISTER("FusedRNN>SimpleRNN", RnnOp)

}  // namespace
}  // namespace fused_rnn::rnn_ops
