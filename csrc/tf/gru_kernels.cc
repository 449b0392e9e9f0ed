// The forward kernel of the sequence, and the checks of all sequence kernels.
#include "tf/gru_kernels.h"

namespace fused_rnn {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

absl::Status GruKernel::read_activation(OpKernelConstruction* ctx,
                                        const char* name,
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

absl::Status GruKernel::check_inputs(OpKernelContext* ctx,
                                     RnnShape* shape) const {
  const SequenceWords words = at_.words();
  const auto rank = [&](int input, const char* name, const char* expected,
                        int dims) {
    if (ctx->input(input).dims() == dims) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(name, " must have shape ", expected, ", got ",
                     ctx->input(input).shape().DebugString()));
  };
  if (at_.x >= 0) {
    TF_RETURN_IF_ERROR(rank(at_.x, "x", words.x, 3));
    const Tensor& x = ctx->input(at_.x);
    shape->steps = x.dim_size(at_.time_major ? 0 : 1);
    shape->batch = x.dim_size(at_.time_major ? 1 : 0);
    shape->inputs = x.dim_size(2);
  } else {
    TF_RETURN_IF_ERROR(rank(at_.kernel, "kernel", kKernelWords, 2));
    TF_RETURN_IF_ERROR(rank(at_.d_gates, "d_gates", kReserveWords, 3));
    shape->steps = ctx->input(at_.d_gates).dim_size(0);
    shape->batch = ctx->input(at_.d_gates).dim_size(1);
    shape->inputs = ctx->input(at_.kernel).dim_size(0);
  }
  // Where the recurrent kernel is no input, other kernels have seen it.
  if (at_.recurrent_kernel >= 0) {
    TF_RETURN_IF_ERROR(rank(at_.recurrent_kernel, "recurrent_kernel",
                            kRecurrentKernelWords, 2));
    shape->units = ctx->input(at_.recurrent_kernel).dim_size(0);
  } else {
    TF_RETURN_IF_ERROR(rank(at_.d_gates, "d_gates", kReserveWords, 3));
    shape->units = ctx->input(at_.d_gates).dim_size(2) / kGruReserve;
  }

  const auto [steps, batch, inputs, units] = *shape;
  const auto because = [&, this] {
    std::string text = " (";
    if (at_.x >= 0) {
      absl::StrAppend(&text, "x is ", ctx->input(at_.x).shape().DebugString());
    } else {
      absl::StrAppend(&text, "kernel is ",
                      ctx->input(at_.kernel).shape().DebugString());
    }
    const bool whole = at_.recurrent_kernel >= 0;
    absl::StrAppend(
        &text, whole ? ", recurrent_kernel is " : ", d_gates is ",
        ctx->input(whole ? at_.recurrent_kernel : at_.d_gates)
            .shape()
            .DebugString(),
        ")");
    return text;
  };
  // Of empty tensors any size may be claimed. The products of these are the
  // sizes of what the kernels allocate.
  const auto fits = [](std::initializer_list<Index> sizes) {
    Index product = 1;
    for (const Index size : sizes) {
      if (!multiply_sizes(product, size, &product)) return false;
    }
    return true;
  };
  if (!fits({steps, batch, inputs}) || !fits({steps, batch, units, kGruReserve}) ||
      !fits({batch, units, kGruReserve}) || !fits({inputs, units, kGruGates}) ||
      !fits({units, units, kGruGates})) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the numbers of elements of x, kernel, recurrent_kernel and"
        " [steps, batch size, 4 * units] must be below 2^63",
        because()));
  }
  const Index three = kGruGates * units;
  const Index four = kGruReserve * units;
  const auto require = [&](int input, const char* name, const char* expected,
                           absl::Span<const Index> sizes) {
    if (input < 0) return absl::OkStatus();
    return require_shape(ctx->input(input), name, expected, sizes, because);
  };
  const auto sequence_of_units = [&](int input, const char* name) {
    return at_.time_major
               ? require(input, name, words.outputs, {steps, batch, units})
               : require(input, name, words.outputs, {batch, steps, units});
  };
  TF_RETURN_IF_ERROR(require(at_.recurrent_kernel, "recurrent_kernel",
                             kRecurrentKernelWords, {units, three}));
  TF_RETURN_IF_ERROR(require(at_.h0, "h0", kH0Words, {batch, units}));
  TF_RETURN_IF_ERROR(
      require(at_.kernel, "kernel", kKernelWords, {inputs, three}));
  TF_RETURN_IF_ERROR(at_.reset_after
                         ? require(at_.bias, "bias", words.bias, {2, three})
                         : require(at_.bias, "bias", words.bias, {three}));
  TF_RETURN_IF_ERROR(require(at_.mask, "mask", kMaskWords, {batch, steps}));
  TF_RETURN_IF_ERROR(require(at_.dropout, "recurrent_dropout_mask",
                             kDropoutWords, {3, batch, units}));
  TF_RETURN_IF_ERROR(sequence_of_units(at_.outputs, "outputs"));
  TF_RETURN_IF_ERROR(
      require(at_.reserve, "reserve", kReserveWords, {steps, batch, four}));
  TF_RETURN_IF_ERROR(
      require(at_.d_gates, "d_gates", kReserveWords, {steps, batch, four}));
  TF_RETURN_IF_ERROR(sequence_of_units(at_.d_outputs, "d_outputs"));
  return require(at_.d_state, "d_state", kH0Words, {batch, units});
}

namespace {

template <class Device, class T>
class GruOp : public GruKernel {
 public:
  explicit GruOp(OpKernelConstruction* ctx)
      : GruKernel(ctx, SequenceOp::kForward) {
    OP_REQUIRES_OK(ctx, Device::check());
    OP_REQUIRES_OK(ctx, ctx->GetAttr("return_sequences", &return_sequences_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("keep_reserve", &keep_reserve_));
  }

  void Compute(OpKernelContext* ctx) override {
    RnnShape shape;
    OP_REQUIRES_OK(ctx, check_inputs(ctx, &shape));
    const auto [steps, batch, inputs, units] = shape;
    const bool sequences = return_sequences_ || keep_reserve_;
    Tensor *outputs, *state, *reserve;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(
                            0, sequence_shape(sequences ? steps : 0, batch,
                                              units),
                            &outputs));
    const TensorShape state_shape({batch, units});
    // The core allows the state to replace h0.
    if (at_.h0 >= 0) {
      OP_REQUIRES_OK(ctx, ctx->forward_input_or_allocate_output(
                              {at_.h0}, 1, state_shape, &state));
    } else {
      OP_REQUIRES_OK(ctx, ctx->allocate_output(1, state_shape, &state));
    }
    OP_REQUIRES_OK(
        ctx, ctx->allocate_output(
                 2, TensorShape({keep_reserve_ ? steps : 0, batch,
                                 kGruReserve * units}),
                 &reserve));
    if (state_shape.num_elements() == 0) return;

    using Core = CoreType<T>;
    RnnForward<Core> call;
    call.shape = shape;
    call.options = options_;
    call.x = reversible(input_data<T>(ctx->input(at_.x)), shape, inputs);
    call.h0 = h0<T>(ctx, shape);
    set_kernel<T>(ctx, shape, &call.weights);
    set_recurrent<T>(ctx, shape, &call.weights);
    if (at_.bias >= 0) {
      const Core* bias = input_data<T>(ctx->input(at_.bias));
      for (int g = 0; g < kGruGates; ++g) {
        call.weights.bias[g] = bias + g * units;
        if (options_.reset_after) {
          call.weights.recurrent_bias[g] = bias + (kGruGates + g) * units;
        }
      }
    }
    call.mask = mask(ctx, shape);
    set_dropout<T>(ctx, shape, call.recurrent_dropout);
    if (sequences) {
      call.outputs = sequence(output_data<T>(outputs), shape, units);
    }
    call.state = {output_data<T>(state), units};
    for (int g = 0; keep_reserve_ && g < gates(); ++g) {
      call.reserve[g] =
          slot(output_data<T>(reserve), shape, reserve_slot(g));
    }
    OP_REQUIRES_OK(ctx, Device::run(ctx, rnn_forward<Core>, call));
  }

 private:
  bool return_sequences_ = true;
  bool keep_reserve_ = true;
};

FUSED_RNN_REGISTER("FusedRNN>GRU", GruOp)

}  // namespace
}  // namespace fused_rnn
