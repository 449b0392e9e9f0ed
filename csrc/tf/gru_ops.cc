// Definitions and shape functions of the sequence ops.
#include "tensorflow/core/framework/op.h"
#include "tf/gru_sequence.h"
#include "tf/shape_rules.h"

namespace fused_rnn {
namespace {

struct SequenceDims {
  DimensionHandle steps, batch, inputs, units, three_units, four_units;
};

// Finds each size in whatever input knows it, then holds every input against
// what these sizes make of it.
absl::Status sequence_dims(InferenceContext* c, const SequenceAttributes& a,
                           SequenceDims* dims) {
  const auto dim = [&](int input, int i) {
    return input < 0 ? c->UnknownDim() : dim_of(c, input, i);
  };
  const int time = a.time_major ? 0 : 1;
  const int row = 1 - time;
  dims->steps = first_known(
      c, {dim(a.x, time), dim(a.d_gates, 0), dim(a.mask, 1),
          dim(a.outputs, time), dim(a.reserve, 0), dim(a.d_outputs, time)});
  dims->batch = first_known(
      c, {dim(a.x, row), dim(a.d_gates, 1), dim(a.h0, 0), dim(a.mask, 0),
          dim(a.dropout, 1), dim(a.outputs, row), dim(a.reserve, 1),
          dim(a.d_outputs, row), dim(a.d_state, 0)});
  dims->inputs = first_known(c, {dim(a.x, 2), dim(a.kernel, 0)});
  const int last_of_bias = a.reset_after ? 1 : 0;
  dims->units = first_known(
      c, {dim(a.recurrent_kernel, 0), quotient(c, dim(a.d_gates, 2), 4),
          dim(a.h0, 1), quotient(c, dim(a.recurrent_kernel, 1), 3),
          quotient(c, dim(a.kernel, 1), 3),
          quotient(c, dim(a.bias, last_of_bias), 3), dim(a.dropout, 2),
          dim(a.outputs, 2), quotient(c, dim(a.reserve, 2), 4),
          dim(a.d_outputs, 2), dim(a.d_state, 1)});
  TF_RETURN_IF_ERROR(c->Multiply(dims->units, 3, &dims->three_units));
  TF_RETURN_IF_ERROR(c->Multiply(dims->units, 4, &dims->four_units));

  const int sizes[2] = {a.x >= 0 ? a.x : a.kernel,
                        a.recurrent_kernel >= 0 ? a.recurrent_kernel
                                                : a.d_gates};
  const std::string because = absl::StrCat(
      a.x >= 0 ? " (x is " : " (kernel is ", c->DebugString(c->input(sizes[0])),
      a.recurrent_kernel >= 0 ? ", recurrent_kernel is " : ", d_gates is ",
      c->DebugString(c->input(sizes[1])), ")");
  const auto require = [&](int input, const char* name, const char* words,
                           std::initializer_list<DimensionHandle> shape) {
    if (input < 0) return absl::OkStatus();
    return require_shape(c, input, name, words, shape, because);
  };
  const auto sequence = [&](int input, const char* name, const char* words,
                            DimensionHandle last) {
    return a.time_major
               ? require(input, name, words, {dims->steps, dims->batch, last})
               : require(input, name, words, {dims->batch, dims->steps, last});
  };
  const auto multiple = [&](int input, const char* name, const char* words,
                            int i, int by) {
    if (input < 0) return absl::OkStatus();
    return require_multiple(c, input, name, words, dim_of(c, input, i), by);
  };
  const SequenceWords words = a.words();
  TF_RETURN_IF_ERROR(multiple(a.kernel, "kernel", kKernelWords, 1, 3));
  TF_RETURN_IF_ERROR(multiple(a.recurrent_kernel, "recurrent_kernel",
                              kRecurrentKernelWords, 1, 3));
  TF_RETURN_IF_ERROR(multiple(a.d_gates, "d_gates", kReserveWords, 2, 4));
  TF_RETURN_IF_ERROR(sequence(a.x, "x", words.x, dims->inputs));
  TF_RETURN_IF_ERROR(
      require(a.recurrent_kernel, "recurrent_kernel", kRecurrentKernelWords,
              {dims->units, dims->three_units}));
  TF_RETURN_IF_ERROR(
      require(a.h0, "h0", kH0Words, {dims->batch, dims->units}));
  TF_RETURN_IF_ERROR(require(a.kernel, "kernel", kKernelWords,
                             {dims->inputs, dims->three_units}));
  TF_RETURN_IF_ERROR(
      a.reset_after
          ? require(a.bias, "bias", words.bias,
                    {c->MakeDim(2), dims->three_units})
          : require(a.bias, "bias", words.bias, {dims->three_units}));
  TF_RETURN_IF_ERROR(
      require(a.mask, "mask", kMaskWords, {dims->batch, dims->steps}));
  TF_RETURN_IF_ERROR(require(a.dropout, "recurrent_dropout_mask", kDropoutWords,
                             {c->MakeDim(3), dims->batch, dims->units}));
  TF_RETURN_IF_ERROR(
      sequence(a.outputs, "outputs", words.outputs, dims->units));
  TF_RETURN_IF_ERROR(require(a.reserve, "reserve", kReserveWords,
                             {dims->steps, dims->batch, dims->four_units}));
  TF_RETURN_IF_ERROR(require(a.d_gates, "d_gates", kReserveWords,
                             {dims->steps, dims->batch, dims->four_units}));
  TF_RETURN_IF_ERROR(
      sequence(a.d_outputs, "d_outputs", words.outputs, dims->units));
  return require(a.d_state, "d_state", kH0Words, {dims->batch, dims->units});
}

absl::Status read(InferenceContext* c, SequenceOp op, SequenceAttributes* a,
                  SequenceDims* dims) {
  TF_RETURN_IF_ERROR(read_attributes(c, op, a));
  return sequence_dims(c, *a, dims);
}

ShapeHandle sequence_of(InferenceContext* c, const SequenceAttributes& a,
                        const SequenceDims& dims, DimensionHandle last) {
  return a.time_major ? c->MakeShape({dims.steps, dims.batch, last})
                      : c->MakeShape({dims.batch, dims.steps, last});
}

absl::Status forward_shapes(InferenceContext* c) {
  SequenceAttributes a;
  SequenceDims dims;
  TF_RETURN_IF_ERROR(read(c, SequenceOp::kForward, &a, &dims));
  bool return_sequences, keep_reserve;
  TF_RETURN_IF_ERROR(c->GetAttr("return_sequences", &return_sequences));
  TF_RETURN_IF_ERROR(c->GetAttr("keep_reserve", &keep_reserve));
  SequenceDims kept = dims;
  if (!return_sequences && !keep_reserve) kept.steps = c->MakeDim(0);
  c->set_output(0, sequence_of(c, a, kept, dims.units));
  c->set_output(1, c->Matrix(dims.batch, dims.units));
  c->set_output(2, c->MakeShape({keep_reserve ? dims.steps : c->MakeDim(0),
                                 dims.batch, dims.four_units}));
  return absl::OkStatus();
}

absl::Status grad_shapes(InferenceContext* c) {
  SequenceAttributes a;
  SequenceDims dims;
  TF_RETURN_IF_ERROR(read(c, SequenceOp::kGrad, &a, &dims));
  c->set_output(0, c->Matrix(dims.batch, dims.units));
  c->set_output(1, c->MakeShape({dims.steps, dims.batch, dims.four_units}));
  return absl::OkStatus();
}

absl::Status input_grad_shapes(InferenceContext* c) {
  SequenceAttributes a;
  SequenceDims dims;
  TF_RETURN_IF_ERROR(read(c, SequenceOp::kInputGrad, &a, &dims));
  c->set_output(0, sequence_of(c, a, dims, dims.inputs));
  return absl::OkStatus();
}

absl::Status weight_grad_shapes(InferenceContext* c) {
  SequenceAttributes a;
  SequenceDims dims;
  TF_RETURN_IF_ERROR(read(c, SequenceOp::kWeightGrad, &a, &dims));
  c->set_output(0, c->Matrix(dims.inputs, dims.three_units));
  c->set_output(1, c->Matrix(dims.units, dims.three_units));
  if (c->num_outputs() > 2) {
    c->set_output(2, a.reset_after ? c->Matrix(2, dims.three_units)
                                   : c->Vector(dims.three_units));
  }
  return absl::OkStatus();
}

constexpr char kActivation[] =
    "activation: {'tanh', 'sigmoid', 'relu', 'linear', 'hard_sigmoid',"
    " 'softsign', 'elu'} = 'tanh'";
constexpr char kRecurrentActivation[] =
    "recurrent_activation: {'tanh', 'sigmoid', 'relu', 'linear',"
    " 'hard_sigmoid', 'softsign', 'elu'} = 'sigmoid'";

}  // namespace

REGISTER_OP("FusedRNN>GRU")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("num_h0: int >= 0")
    .Attr("num_bias: int >= 0")
    .Attr("num_mask: int >= 0")
    .Attr("num_recurrent_dropout_mask: int >= 0")
    .Attr("reset_after: bool = true")
    .Attr("go_backwards: bool = false")
    .Attr("time_major: bool = false")
    .Attr("zero_output_for_mask: bool = false")
    .Attr(kActivation)
    .Attr(kRecurrentActivation)
    .Attr("return_sequences: bool = true")
    .Attr("keep_reserve: bool = true")
    .Input("x: T")
    .Input("h0: num_h0 * T")
    .Input("kernel: T")
    .Input("recurrent_kernel: T")
    .Input("bias: num_bias * T")
    .Input("mask: num_mask * bool")
    .Input("recurrent_dropout_mask: num_recurrent_dropout_mask * T")
    .Output("outputs: T")
    .Output("state: T")
    .Output("reserve: T")
    .SetShapeFn(forward_shapes)
    .Doc(R"doc(
A gated recurrent unit over a whole sequence.

Gates are in the order z (update), r (reset), c (candidate), as Keras has them.
Inputs that are lists hold one tensor, or none where it is absent.

x: [batch size, steps, input size]; the first two swapped with time_major.
h0: [batch size, units], the first state; none: zeros.
kernel: [input size, 3 * units].
recurrent_kernel: [units, 3 * units].
bias: [3 * units], or with reset_after [2, 3 * units], input and recurrent.
mask: [batch size, steps], false where a step is left out: the state is carried
  and the output repeats the output before, or is zero.
recurrent_dropout_mask: [3, batch size, units], factors of the state on its way
  into the product of each gate.
outputs: [batch size, steps, units] in the order of processing, or as x;
  of no steps where neither return_sequences nor keep_reserve wants it.
state: [batch size, units], the last state.
reserve: [steps, batch size, 4 * units], what the gradient needs: z, r, c and
  the recurrent product of c with reset_after, else z, nothing, c, r; of no
  steps without keep_reserve.
reset_after: whether the reset gate acts after the product.
go_backwards: whether the last step is processed first.
zero_output_for_mask: whether outputs of masked steps are zero.
)doc");

REGISTER_OP("FusedRNN>GRUGrad")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("num_h0: int >= 0")
    .Attr("num_bias: int >= 0")
    .Attr("num_mask: int >= 0")
    .Attr("num_recurrent_dropout_mask: int >= 0")
    .Attr("num_d_outputs: int >= 0")
    .Attr("num_d_state: int >= 0")
    .Attr("reset_after: bool = true")
    .Attr("go_backwards: bool = false")
    .Attr("time_major: bool = false")
    .Attr("zero_output_for_mask: bool = false")
    .Attr(kActivation)
    .Attr(kRecurrentActivation)
    .Input("x: T")
    .Input("h0: num_h0 * T")
    .Input("kernel: T")
    .Input("recurrent_kernel: T")
    .Input("bias: num_bias * T")
    .Input("mask: num_mask * bool")
    .Input("recurrent_dropout_mask: num_recurrent_dropout_mask * T")
    .Input("outputs: T")
    .Input("reserve: T")
    .Input("d_outputs: num_d_outputs * T")
    .Input("d_state: num_d_state * T")
    .Output("d_h0: T")
    .Output("d_gates: T")
    .SetShapeFn(grad_shapes)
    .Doc(R"doc(
The gradient of GRU, as far as it runs through time.

The inputs are those of GRU, its outputs, and the incoming gradients; x, kernel
and bias are there for the gradient of this op alone. GRUInputGrad and
GRUWeightGrad make the other gradients of d_gates.

d_h0: [batch size, units].
d_gates: [steps, batch size, 4 * units], in the order of processing: gradients
  of z, r and c before their activations, and of the recurrent product of c
  with reset_after, else r itself; zero at masked steps.
)doc");

REGISTER_OP("FusedRNN>GRUInputGrad")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("num_mask: int >= 0")
    .Attr("go_backwards: bool = false")
    .Attr("time_major: bool = false")
    .Input("kernel: T")
    .Input("mask: num_mask * bool")
    .Input("d_gates: T")
    .Output("d_x: T")
    .SetShapeFn(input_grad_shapes)
    .Doc(R"doc(
The gradient of GRU's x, of the gate gradients that GRUGrad gives.

d_x: as x, zero at masked steps.
)doc");

REGISTER_OP("FusedRNN>GRUWeightGrad")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("num_h0: int >= 0")
    .Attr("num_bias: int >= 0")
    .Attr("num_mask: int >= 0")
    .Attr("num_recurrent_dropout_mask: int >= 0")
    .Attr("reset_after: bool = true")
    .Attr("go_backwards: bool = false")
    .Attr("time_major: bool = false")
    .Input("x: T")
    .Input("h0: num_h0 * T")
    .Input("mask: num_mask * bool")
    .Input("recurrent_dropout_mask: num_recurrent_dropout_mask * T")
    .Input("outputs: T")
    .Input("d_gates: T")
    .Output("d_kernel: T")
    .Output("d_recurrent_kernel: T")
    .Output("d_bias: num_bias * T")
    .SetShapeFn(weight_grad_shapes)
    .Doc(R"doc(
The gradients of GRU's weights, of the gate gradients that GRUGrad gives.

d_kernel, d_recurrent_kernel, d_bias: as the weights themselves.
)doc");

}  // namespace fused_rnn
