// The cell's kernels: checks, allocation, registration. One step of the core.
#include "tf/context.h"
#include "tf/device.h"

namespace fused_rnn {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// Inputs of the cell and its gradient, in order; those from kR on are the gradient's.
enum : int { kX, kHPrev, kWRu, kWC, kBRu, kBC, kR, kU, kC, kDH, kDR, kDU, kDC };
constexpr const char* kNames[] = {"x",   "h_prev", "w_ru", "w_c", "b_ru",
                                  "b_c", "r",      "u",    "c",   "d_h",
                                  "d_r", "d_u",    "d_c"};

struct CellSizes {
  Index batch = 0;
  Index inputs = 0;
  Index units = 0;
};

constexpr char kGateWords[] = "[batch size, cell size]";

// What the sizes were taken from, for a message; x and h_prev come first in
// every op.
auto because(OpKernelContext* ctx) {
  return [ctx] {
    return absl::StrCat(" (x is ", ctx->input(kX).shape().DebugString(),
                        ", h_prev is ", ctx->input(kHPrev).shape().DebugString(),
                        ")");
  };
}

// The sizes that x and h_prev state.
absl::Status state_sizes(OpKernelContext* ctx, CellSizes* sizes) {
  const Tensor& x = ctx->input(kX);
  const Tensor& h_prev = ctx->input(kHPrev);
  if (x.dims() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("x must have shape [batch size, input size], got ",
                     x.shape().DebugString()));
  }
  if (h_prev.dims() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("h_prev must have shape ", kGateWords, ", got ",
                     h_prev.shape().DebugString()));
  }
  sizes->batch = x.dim_size(0);
  sizes->inputs = x.dim_size(1);
  sizes->units = h_prev.dim_size(1);
  Index rows, twice;
  if (!add_sizes(sizes->inputs, sizes->units, &rows) ||
      !multiply_sizes(2, sizes->units, &twice)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "input size + cell size and 2 * cell size must be below 2^63",
        because(ctx)()));
  }
  return absl::OkStatus();
}

// Holds every input of the cell or its gradient against these sizes.
absl::Status check_inputs(OpKernelContext* ctx, CellSizes* sizes) {
  TF_RETURN_IF_ERROR(state_sizes(ctx, sizes));
  const Index units = sizes->units;
  const Index rows = sizes->inputs + units;
  const auto require = [&](int input, const char* words,
                           absl::Span<const Index> expected) {
    return require_shape(ctx->input(input), kNames[input], words, expected,
                         because(ctx));
  };
  TF_RETURN_IF_ERROR(require(kHPrev, kGateWords, {sizes->batch, units}));
  TF_RETURN_IF_ERROR(require(
      kWRu, "[input size + cell size, 2 * cell size]", {rows, 2 * units}));
  TF_RETURN_IF_ERROR(
      require(kWC, "[input size + cell size, cell size]", {rows, units}));
  TF_RETURN_IF_ERROR(require(kBRu, "[2 * cell size]", {2 * units}));
  TF_RETURN_IF_ERROR(require(kBC, "[cell size]", {units}));
  for (int i = kR; i < ctx->num_inputs(); ++i) {
    TF_RETURN_IF_ERROR(require(i, kGateWords, {sizes->batch, units}));
  }
  return absl::OkStatus();
}

RnnShape one_step(const CellSizes& sizes) {
  RnnShape shape;
  shape.steps = 1;
  shape.batch = sizes.batch;
  shape.inputs = sizes.inputs;
  shape.units = sizes.units;
  return shape;
}

// w_ru holds reset and update side by side, w_c the candidate; in both the
// rows of x precede those of the state.
template <class T>
RnnWeights<CoreType<T>> weights_of(OpKernelContext* ctx,
                                   const CellSizes& sizes) {
  const auto* w_ru = input_data<T>(ctx->input(kWRu));
  const auto* w_c = input_data<T>(ctx->input(kWC));
  const auto* b_ru = input_data<T>(ctx->input(kBRu));
  const Index units = sizes.units;
  RnnWeights<CoreType<T>> weights;
  weights.kernel[kReset] = {w_ru, 2 * units};
  weights.kernel[kUpdate] = {w_ru + units, 2 * units};
  weights.kernel[kCandidate] = {w_c, units};
  for (int gate = 0; gate < kGruGates; ++gate) {
    weights.recurrent[gate] = weights.kernel[gate];
    weights.recurrent[gate].data += sizes.inputs * weights.kernel[gate].row;
  }
  weights.bias[kReset] = b_ru;
  weights.bias[kUpdate] = b_ru + units;
  weights.bias[kCandidate] = input_data<T>(ctx->input(kBC));
  return weights;
}

template <class Device, class T>
class GruBlockCellOp : public OpKernel {
 public:
  explicit GruBlockCellOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, Device::check());
  }

  void Compute(OpKernelContext* ctx) override {
    CellSizes sizes;
    OP_REQUIRES_OK(ctx, check_inputs(ctx, &sizes));
    const TensorShape shape({sizes.batch, sizes.units});
    Tensor *r, *u, *c, *h;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, shape, &r));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, shape, &u));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(2, shape, &c));
    // The core reads all of a row of h_prev before it writes that row of h.
    OP_REQUIRES_OK(
        ctx, ctx->forward_input_or_allocate_output({kHPrev}, 3, shape, &h));
    if (shape.num_elements() == 0) return;

    const Index row = sizes.units;
    RnnForward<CoreType<T>> call;
    call.shape = one_step(sizes);
    call.x = {input_data<T>(ctx->input(kX)), 0, sizes.inputs};
    call.h0 = {input_data<T>(ctx->input(kHPrev)), row};
    call.weights = weights_of<T>(ctx, sizes);
    call.state = {output_data<T>(h), row};
    call.reserve[kUpdate] = {output_data<T>(u), 0, row};
    call.reserve[kReset] = {output_data<T>(r), 0, row};
    call.reserve[kCandidate] = {output_data<T>(c), 0, row};
    OP_REQUIRES_OK(ctx, Device::run(ctx, rnn_forward<CoreType<T>>, call));
  }
};

template <class Device, class T>
class GruBlockCellGradOp : public OpKernel {
 public:
  explicit GruBlockCellGradOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, Device::check());
    const int inputs = ctx->num_inputs();
    OP_REQUIRES(
        ctx, inputs == kDR || inputs == kDC + 1,
        absl::InvalidArgumentError(absl::StrCat(
            "d_gates must hold no tensor, or d_r, d_u and d_c; got ",
            inputs - kDR, " tensors")));
  }

  void Compute(OpKernelContext* ctx) override {
    CellSizes sizes;
    OP_REQUIRES_OK(ctx, check_inputs(ctx, &sizes));
    const Index units = sizes.units;
    const TensorShape shape({sizes.batch, units});
    Tensor *d_x, *d_h_prev, *d_c_bar, *d_gates;
    // The core reads x nowhere, and allows the other three to share.
    OP_REQUIRES_OK(ctx, ctx->forward_input_or_allocate_output(
                            {kX}, 0, ctx->input(kX).shape(), &d_x));
    OP_REQUIRES_OK(ctx, ctx->forward_input_or_allocate_output(
                            {kHPrev, kDH}, 1, shape, &d_h_prev));
    OP_REQUIRES_OK(
        ctx, ctx->forward_input_or_allocate_output({kC}, 2, shape, &d_c_bar));
    OP_REQUIRES_OK(ctx,
                   ctx->allocate_output(
                       3, TensorShape({sizes.batch, 2 * units}), &d_gates));
    if (shape.num_elements() == 0) {
      OP_REQUIRES_OK(ctx,
                     Device::zero(ctx, d_x->data(), d_x->TotalBytes()));
      return;
    }

    using Core = CoreType<T>;
    RnnBackward<Core> call;
    call.shape = one_step(sizes);
    call.weights = weights_of<T>(ctx, sizes);
    call.h0 = {input_data<T>(ctx->input(kHPrev)), units};
    call.reserve[kUpdate] = {input_data<T>(ctx->input(kU)), 0, units};
    call.reserve[kReset] = {input_data<T>(ctx->input(kR)), 0, units};
    call.reserve[kCandidate] = {input_data<T>(ctx->input(kC)), 0, units};
    call.d_state = {input_data<T>(ctx->input(kDH)), units};
    if (ctx->num_inputs() > kDR) {
      call.d_reserve[kUpdate] = {input_data<T>(ctx->input(kDU)), 0, units};
      call.d_reserve[kReset] = {input_data<T>(ctx->input(kDR)), 0, units};
      call.d_reserve[kCandidate] = {input_data<T>(ctx->input(kDC)), 0, units};
    }
    call.d_h0 = {output_data<T>(d_h_prev), units};
    Core* d_r_bar_u_bar = output_data<T>(d_gates);
    call.d_gates[kUpdate] = {d_r_bar_u_bar + units, 0, 2 * units};
    call.d_gates[kReset] = {d_r_bar_u_bar, 0, 2 * units};
    call.d_gates[kCandidate] = {output_data<T>(d_c_bar), 0, units};
    OP_REQUIRES_OK(ctx, Device::run(ctx, rnn_backward<Core>, call));

    if (sizes.inputs == 0) return;
    RnnInputGradient<Core> input_call;
    input_call.shape = call.shape;
    input_call.weights = call.weights;
    for (int gate = 0; gate < kGruGates; ++gate) {
      const Sequence<Core>& from = call.d_gates[gate];
      input_call.d_gates[gate] = {from.data, from.step, from.row};
    }
    input_call.d_x = {output_data<T>(d_x), 0, sizes.inputs};
    OP_REQUIRES_OK(ctx, Device::run(ctx, rnn_input_gradient<Core>, input_call));
  }
};

template <class Device, class T>
class GruBlockCellWeightGradOp : public OpKernel {
 public:
  explicit GruBlockCellWeightGradOp(OpKernelConstruction* ctx)
      : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, Device::check());
  }

  void Compute(OpKernelContext* ctx) override {
    enum : int { kX, kHPrev, kR, kDCBar, kDRBarUBar };
    CellSizes sizes;
    OP_REQUIRES_OK(ctx, state_sizes(ctx, &sizes));
    const auto [batch, inputs, units] = sizes;
    constexpr const char* kNames[] = {"x", "h_prev", "r", "d_c_bar"};
    for (int input : {kHPrev, kR, kDCBar}) {
      OP_REQUIRES_OK(ctx,
                     require_shape(ctx->input(input), kNames[input], kGateWords,
                                   {batch, units}, because(ctx)));
    }
    OP_REQUIRES_OK(
        ctx, require_shape(ctx->input(kDRBarUBar), "d_r_bar_u_bar",
                           "[batch size, 2 * cell size]", {batch, 2 * units},
                           because(ctx)));
    const Index rows = inputs + units;
    Tensor *d_w_ru, *d_w_c, *d_b_ru, *d_b_c;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({rows, 2 * units}),
                                             &d_w_ru));
    OP_REQUIRES_OK(
        ctx, ctx->allocate_output(1, TensorShape({rows, units}), &d_w_c));
    OP_REQUIRES_OK(ctx,
                   ctx->allocate_output(2, TensorShape({2 * units}), &d_b_ru));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(3, TensorShape({units}), &d_b_c));
    if (units == 0) return;

    using Core = CoreType<T>;
    const auto* d_c_bar = input_data<T>(ctx->input(kDCBar));
    const auto* d_gates = input_data<T>(ctx->input(kDRBarUBar));
    RnnWeightGradient<Core> call;
    call.shape = one_step(sizes);
    call.x = {input_data<T>(ctx->input(kX)), 0, inputs};
    call.h0 = {input_data<T>(ctx->input(kHPrev)), units};
    call.reset = {input_data<T>(ctx->input(kR)), 0, units};
    call.d_gates[kReset] = {d_gates, 0, 2 * units};
    call.d_gates[kUpdate] = {d_gates + units, 0, 2 * units};
    call.d_gates[kCandidate] = {d_c_bar, 0, units};
    call.d_kernel[kReset] = {output_data<T>(d_w_ru), 2 * units};
    call.d_kernel[kUpdate] = {output_data<T>(d_w_ru) + units, 2 * units};
    call.d_kernel[kCandidate] = {output_data<T>(d_w_c), units};
    call.d_bias[kReset] = output_data<T>(d_b_ru);
    call.d_bias[kUpdate] = output_data<T>(d_b_ru) + units;
    call.d_bias[kCandidate] = output_data<T>(d_b_c);
    for (int gate = 0; gate < kGruGates; ++gate) {
      call.d_recurrent[gate] = call.d_kernel[gate];
      call.d_recurrent[gate].data += inputs * call.d_kernel[gate].row;
      if (inputs == 0) call.d_kernel[gate] = {};
    }
    OP_REQUIRES_OK(ctx, Device::run(ctx, rnn_weight_gradient<Core>, call));
  }
};

FUSED_RNN_REGISTER("FusedRNN>GRUBlockCell", GruBlockCellOp)
FUSED_RNN_REGISTER("FusedRNN>GRUBlockCellGrad", GruBlockCellGradOp)
FUSED_RNN_REGISTER("FusedRNN>GRUBlockCellWeightGrad",
                   GruBlockCellWeightGradOp)
FUSED_RNN_TAKE_OVER("GRUBlockCell", GruBlockCellOp)
FUSED_RNN_TAKE_OVER("GRUBlockCellGrad", GruBlockCellGradOp)

}  // namespace
}  // namespace fused_rnn
