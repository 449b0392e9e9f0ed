// Definitions and shape functions of the block cells' ops.
#include "tensorflow/core/framework/op.h"
#include "tf/block_cells.h"
#include "tf/shape_rules.h"

namespace fused_rnn {
namespace {

// Finds each size in whatever input knows it, then holds every input against
// what these sizes make of it, and gives the outputs theirs.
absl::Status infer_shapes(InferenceContext* c, const BlockOp& op) {
  const int missing = op.inputs.size - c->num_inputs();
  if (missing != 0 && missing != op.optional)
    return absl::InvalidArgumentError(op.wrong_list(op.optional - missing));
  bool use_peephole = false;
  if (op.find(Role::kPeephole) >= 0)
    TF_RETURN_IF_ERROR(c->GetAttr("use_peephole", &use_peephole));
  const auto used = [&](int i) {
    return op.inputs[i].role != Role::kPeephole || use_peephole;
  };

  constexpr int kSizes = static_cast<int>(Size::kRows) + 1;
  std::vector<DimensionHandle> seen[kSizes];
  const auto of = [&](Size size) -> std::vector<DimensionHandle>& {
    return seen[static_cast<int>(size)];
  };
  for (int i = 0; i < c->num_inputs(); ++i) {
    if (!used(i)) continue;
    const Axes axes = axes_of(op.inputs[i], op.sequence());
    for (int a = 0; a < axes.rank; ++a) {
      const DimensionHandle dim = dim_of(c, i, a);
      const int times = axes.axis[a].times;
      TF_RETURN_IF_ERROR(require_multiple(c, i, op.inputs[i].name,
                                          axes.words().c_str(), dim, times));
      of(axes.axis[a].size)
          .push_back(times == 1 ? dim : quotient(c, dim, times));
    }
  }
  DimensionHandle sizes[kSizes];
  const auto known = [&](Size size) {
    return sizes[static_cast<int>(size)] = first_known(c, of(size));
  };
  const DimensionHandle rows = known(Size::kRows);
  of(Size::kUnits).push_back(difference(c, rows, known(Size::kInputs)));
  of(Size::kInputs).push_back(difference(c, rows, known(Size::kUnits)));
  known(Size::kSteps);
  known(Size::kBatch);
  TF_RETURN_IF_ERROR(c->Add(known(Size::kInputs),
                            sizes[static_cast<int>(Size::kUnits)],
                            &sizes[static_cast<int>(Size::kRows)]));

  const auto shape_of = [&](const Argument& argument, ShapeHandle* shape) {
    const Axes axes = axes_of(argument, op.sequence());
    std::vector<DimensionHandle> dims(axes.rank);
    for (int a = 0; a < axes.rank; ++a) {
      TF_RETURN_IF_ERROR(
          c->Multiply(sizes[static_cast<int>(axes.axis[a].size)],
                      axes.axis[a].times, &dims[a]));
    }
    *shape = c->MakeShape(dims);
    return absl::OkStatus();
  };
  std::string because;
  for (int i = 0; i < 2; ++i)
    absl::StrAppend(&because, i ? ", " : " (", op.inputs[i].name, " is ",
                    c->DebugString(c->input(i)));
  because += ")";
  for (int i = 0; i < c->num_inputs(); ++i) {
    if (!used(i)) continue;
    ShapeHandle shape;
    TF_RETURN_IF_ERROR(shape_of(op.inputs[i], &shape));
    TF_RETURN_IF_ERROR(
        require_shape(c, i, op.inputs[i].name,
                      axes_of(op.inputs[i], op.sequence()).words().c_str(),
                      shape, because));
  }
  for (int i = 0; i < op.outputs.size; ++i) {
    ShapeHandle shape;
    TF_RETURN_IF_ERROR(shape_of(op.outputs[i], &shape));
    c->set_output(i, shape);
  }
  return absl::OkStatus();
}

template <const BlockOp& kOp>
absl::Status shapes(InferenceContext* c) {
  return infer_shapes(c, kOp);
}

}  // namespace

REGISTER_OP("FusedRNN>GRUBlockCell")
    .Attr("T: {half, bfloat16, float, double}")
    .Input("x: T")
    .Input("h_prev: T")
    .Input("w_ru: T")
    .Input("w_c: T")
    .Input("b_ru: T")
    .Input("b_c: T")
    .Output("r: T")
    .Output("u: T")
    .Output("c: T")
    .Output("h: T")
    .SetShapeFn(shapes<kGruBlockCell>)
    .Doc(R"doc(
One step of a gated recurrent unit whose reset gate acts before the product.

    [r_bar u_bar] = [x h_prev] w_ru + b_ru      r = sigmoid(r_bar)
                                                u = sigmoid(u_bar)
    c_bar = [x (r * h_prev)] w_c + b_c          c = tanh(c_bar)
    h = u * h_prev + (1 - u) * c

x: [batch size, input size].
h_prev: [batch size, cell size], the previous state.
w_ru: [input size + cell size, 2 * cell size], weights of reset and update.
w_c: [input size + cell size, cell size], weights of the candidate.
b_ru: [2 * cell size].
b_c: [cell size].
r: [batch size, cell size], the reset gate.
u: [batch size, cell size], the update gate.
c: [batch size, cell size], the candidate.
h: [batch size, cell size], the new state.
)doc");

REGISTER_OP("FusedRNN>GRUBlockCellGrad")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("num_d_gates: int >= 0 = 0")
    .Input("x: T")
    .Input("h_prev: T")
    .Input("w_ru: T")
    .Input("w_c: T")
    .Input("b_ru: T")
    .Input("b_c: T")
    .Input("r: T")
    .Input("u: T")
    .Input("c: T")
    .Input("d_h: T")
    .Input("d_gates: num_d_gates * T")
    .Output("d_x: T")
    .Output("d_h_prev: T")
    .Output("d_c_bar: T")
    .Output("d_r_bar_u_bar: T")
    .SetShapeFn(shapes<kGruBlockCellGrad>)
    .Doc(R"doc(
The gradient of GRUBlockCell for incoming gradients of all its outputs.

The inputs are those of the forward op, its outputs r, u and c, and the
incoming gradients. GRUBlockCellWeightGrad makes the gradients of the weights
and biases of the last two outputs.

d_h: [batch size, cell size].
d_gates: nothing, or d_r, d_u and d_c, each [batch size, cell size].
d_x: [batch size, input size].
d_h_prev: [batch size, cell size].
d_c_bar: [batch size, cell size], of the candidate before its tanh.
d_r_bar_u_bar: [batch size, 2 * cell size], of the gates before the sigmoid.
)doc");

REGISTER_OP("FusedRNN>GRUBlockCellWeightGrad")
    .Attr("T: {half, bfloat16, float, double}")
    .Input("x: T")
    .Input("h_prev: T")
    .Input("r: T")
    .Input("d_c_bar: T")
    .Input("d_r_bar_u_bar: T")
    .Output("d_w_ru: T")
    .Output("d_w_c: T")
    .Output("d_b_ru: T")
    .Output("d_b_c: T")
    .SetShapeFn(shapes<kGruBlockCellWeightGrad>)
    .Doc(R"doc(
The gradients of GRUBlockCell's weights, of what GRUBlockCellGrad gives.

    d_w_ru = [x h_prev]^T d_r_bar_u_bar         d_b_ru = sum(d_r_bar_u_bar)
    d_w_c = [x (r * h_prev)]^T d_c_bar          d_b_c = sum(d_c_bar)

d_w_ru, d_w_c, d_b_ru, d_b_c: as the weights themselves.
)doc");

REGISTER_OP("FusedRNN>LSTMBlockCell")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("forget_bias: float = 1.0")
    .Attr("cell_clip: float = 3.0")
    .Attr("use_peephole: bool = false")
    .Input("x: T")
    .Input("cs_prev: T")
    .Input("h_prev: T")
    .Input("w: T")
    .Input("wci: T")
    .Input("wcf: T")
    .Input("wco: T")
    .Input("b: T")
    .Output("i: T")
    .Output("cs: T")
    .Output("f: T")
    .Output("o: T")
    .Output("ci: T")
    .Output("co: T")
    .Output("h: T")
    .SetShapeFn(shapes<kLstmBlockCell>)
    .Doc(R"doc(
One step of a long short-term memory, as TensorFlow's LSTMBlockCell takes it.

    [i_bar ci_bar f_bar o_bar] = [x h_prev] w + b
    i = sigmoid(i_bar + wci * cs_prev)
    f = sigmoid(f_bar + forget_bias + wcf * cs_prev)
    ci = tanh(ci_bar)
    cs = clip(i * ci + f * cs_prev)
    o = sigmoid(o_bar + wco * cs)
    co = tanh(cs)
    h = o * co

forget_bias: added to the forget gate.
cell_clip: cs is cut off at plus and minus this; 0 or less: not at all.
use_peephole: whether there are the terms with wci, wcf and wco.
x: [batch size, input size].
cs_prev: [batch size, cell size], the previous cell state.
h_prev: [batch size, cell size], the previous state.
w: [input size + cell size, 4 * cell size].
wci: [cell size]; neither read nor checked without use_peephole, as wcf and wco.
wcf: [cell size].
wco: [cell size].
b: [4 * cell size].
i: [batch size, cell size], the input gate.
cs: [batch size, cell size], the new cell state.
f: [batch size, cell size], the forget gate.
o: [batch size, cell size], the output gate.
ci: [batch size, cell size], the cell input.
co: [batch size, cell size], the cell output.
h: [batch size, cell size], the new state.
)doc");

REGISTER_OP("FusedRNN>LSTMBlockCellGrad")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("cell_clip: float = 3.0")
    .Attr("use_peephole: bool = false")
    .Attr("num_d_gates: int >= 0 = 0")
    .Input("x: T")
    .Input("cs_prev: T")
    .Input("h_prev: T")
    .Input("w: T")
    .Input("wci: T")
    .Input("wcf: T")
    .Input("wco: T")
    .Input("b: T")
    .Input("i: T")
    .Input("cs: T")
    .Input("f: T")
    .Input("o: T")
    .Input("ci: T")
    .Input("d_cs: T")
    .Input("d_h: T")
    .Input("d_gates: num_d_gates * T")
    .Output("d_x: T")
    .Output("d_cs_prev: T")
    .Output("d_h_prev: T")
    .Output("d_gates_bar: T")
    .SetShapeFn(shapes<kLstmBlockCellGrad>)
    .Doc(R"doc(
The gradient of LSTMBlockCell for incoming gradients of all its outputs.

The inputs are those of the forward op, its outputs but co and h, and the
incoming gradients. LSTMBlockCellWeightGrad makes the gradients of w and b of
the last output. Nothing passes where cs was cut off.

d_cs: [batch size, cell size].
d_h: [batch size, cell size].
d_gates: nothing, or d_i, d_f, d_o, d_ci and d_co, each
  [batch size, cell size].
d_x: [batch size, input size].
d_cs_prev: [batch size, cell size].
d_h_prev: [batch size, cell size].
d_gates_bar: [batch size, 4 * cell size], before the activations, in the order
  of the columns of w.
)doc");

REGISTER_OP("FusedRNN>LSTMBlockCellWeightGrad")
    .Attr("T: {half, bfloat16, float, double}")
    .Input("x: T")
    .Input("h_prev: T")
    .Input("d_gates_bar: T")
    .Output("d_w: T")
    .Output("d_b: T")
    .SetShapeFn(shapes<kLstmBlockCellWeightGrad>)
    .Doc(R"doc(
The gradients of LSTMBlockCell's w and b, of what LSTMBlockCellGrad gives.

    d_w = [x h_prev]^T d_gates_bar              d_b = sum(d_gates_bar)

d_w: as w. d_b: as b.
)doc");

}  // namespace fused_rnn
