// Definitions and shape functions of the cell's ops.
#include "tensorflow/core/framework/op.h"
#include "tf/shape_rules.h"

namespace fused_rnn {
namespace {

constexpr char kGateWords[] = "[batch size, cell size]";

// Inputs of the ops, in order.
enum : int { kX, kHPrev, kWRu, kWC, kBRu, kBC, kR, kU, kC, kDH, kDGates };

struct CellDims {
  DimensionHandle batch;
  DimensionHandle inputs;
  DimensionHandle units;
  DimensionHandle twice_units;
};

// Finds each size in whatever input knows it, then holds every input against
// what these sizes make of it.
absl::Status cell_dims(InferenceContext* c, CellDims* dims) {
  const int count = c->num_inputs();
  constexpr char kWRuWords[] = "[input size + cell size, 2 * cell size]";
  constexpr char kBRuWords[] = "[2 * cell size]";
  TF_RETURN_IF_ERROR(
      require_multiple(c, kWRu, "w_ru", kWRuWords, dim_of(c, kWRu, 1), 2));
  TF_RETURN_IF_ERROR(
      require_multiple(c, kBRu, "b_ru", kBRuWords, dim_of(c, kBRu, 0), 2));

  const DimensionHandle rows =
      first_known(c, {dim_of(c, kWRu, 0), dim_of(c, kWC, 0)});
  std::vector<DimensionHandle> batch = {dim_of(c, kHPrev, 0),
                                        dim_of(c, kX, 0)};
  std::vector<DimensionHandle> units = {
      dim_of(c, kHPrev, 1), dim_of(c, kWC, 1), dim_of(c, kBC, 0),
      quotient(c, dim_of(c, kWRu, 1), 2), quotient(c, dim_of(c, kBRu, 0), 2)};
  for (int i = kR; i < count; ++i) {
    batch.push_back(dim_of(c, i, 0));
    units.push_back(dim_of(c, i, 1));
  }
  units.push_back(difference(c, rows, dim_of(c, kX, 1)));
  dims->batch = first_known(c, batch);
  dims->units = first_known(c, units);
  dims->inputs = first_known(
      c, {dim_of(c, kX, 1), difference(c, rows, dims->units)});
  TF_RETURN_IF_ERROR(c->Multiply(dims->units, 2, &dims->twice_units));
  DimensionHandle both;
  TF_RETURN_IF_ERROR(c->Add(dims->inputs, dims->units, &both));

  const std::string because = absl::StrCat(
      " (x is ", c->DebugString(c->input(kX)), ", h_prev is ",
      c->DebugString(c->input(kHPrev)), ")");
  const auto require = [&](int input, const char* name, const char* words,
                           std::initializer_list<DimensionHandle> shape) {
    return require_shape(c, input, name, words, shape, because);
  };
  TF_RETURN_IF_ERROR(require(kX, "x", "[batch size, input size]",
                             {dims->batch, dims->inputs}));
  TF_RETURN_IF_ERROR(
      require(kHPrev, "h_prev", kGateWords, {dims->batch, dims->units}));
  TF_RETURN_IF_ERROR(
      require(kWRu, "w_ru", kWRuWords, {both, dims->twice_units}));
  TF_RETURN_IF_ERROR(require(kWC, "w_c", "[input size + cell size, cell size]",
                             {both, dims->units}));
  TF_RETURN_IF_ERROR(require(kBRu, "b_ru", kBRuWords, {dims->twice_units}));
  TF_RETURN_IF_ERROR(require(kBC, "b_c", "[cell size]", {dims->units}));
  constexpr const char* kNames[] = {"r",   "u",   "c",  "d_h",
                                    "d_r", "d_u", "d_c"};
  for (int i = kR; i < count; ++i) {
    TF_RETURN_IF_ERROR(
        require(i, kNames[i - kR], kGateWords, {dims->batch, dims->units}));
  }
  return absl::OkStatus();
}

absl::Status cell_shapes(InferenceContext* c) {
  CellDims dims;
  TF_RETURN_IF_ERROR(cell_dims(c, &dims));
  for (int i = 0; i < 4; ++i) {
    c->set_output(i, c->Matrix(dims.batch, dims.units));
  }
  return absl::OkStatus();
}

absl::Status cell_grad_shapes(InferenceContext* c) {
  const int d_gates = c->num_inputs() - kDGates;
  if (d_gates != 0 && d_gates != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("d_gates must hold no tensor, or d_r, d_u and d_c; got ",
                     d_gates, " tensors"));
  }
  CellDims dims;
  TF_RETURN_IF_ERROR(cell_dims(c, &dims));
  c->set_output(0, c->Matrix(dims.batch, dims.inputs));
  c->set_output(1, c->Matrix(dims.batch, dims.units));
  c->set_output(2, c->Matrix(dims.batch, dims.units));
  c->set_output(3, c->Matrix(dims.batch, dims.twice_units));
  return absl::OkStatus();
}

absl::Status cell_weight_grad_shapes(InferenceContext* c) {
  enum : int { kX, kHPrev, kR, kDCBar, kDRBarUBar };
  constexpr char kTwiceWords[] = "[batch size, 2 * cell size]";
  const DimensionHandle twice = dim_of(c, kDRBarUBar, 1);
  TF_RETURN_IF_ERROR(
      require_multiple(c, kDRBarUBar, "d_r_bar_u_bar", kTwiceWords, twice, 2));
  std::vector<DimensionHandle> batches, sizes;
  for (int input : {kHPrev, kX, kR, kDCBar, kDRBarUBar}) {
    batches.push_back(dim_of(c, input, 0));
    if (input != kX && input != kDRBarUBar)
      sizes.push_back(dim_of(c, input, 1));
  }
  sizes.push_back(quotient(c, twice, 2));
  const DimensionHandle batch = first_known(c, batches);
  const DimensionHandle units = first_known(c, sizes);
  const DimensionHandle inputs = dim_of(c, kX, 1);
  DimensionHandle twice_units, both;
  TF_RETURN_IF_ERROR(c->Multiply(units, 2, &twice_units));
  TF_RETURN_IF_ERROR(c->Add(inputs, units, &both));

  const std::string because = absl::StrCat(
      " (x is ", c->DebugString(c->input(kX)), ", h_prev is ",
      c->DebugString(c->input(kHPrev)), ")");
  TF_RETURN_IF_ERROR(require_shape(c, kX, "x", "[batch size, input size]",
                                   {batch, inputs}, because));
  constexpr const char* kNames[] = {"x", "h_prev", "r", "d_c_bar"};
  for (int input : {kHPrev, kR, kDCBar}) {
    TF_RETURN_IF_ERROR(require_shape(c, input, kNames[input], kGateWords,
                                     {batch, units}, because));
  }
  TF_RETURN_IF_ERROR(require_shape(c, kDRBarUBar, "d_r_bar_u_bar", kTwiceWords,
                                   {batch, twice_units}, because));
  c->set_output(0, c->Matrix(both, twice_units));
  c->set_output(1, c->Matrix(both, units));
  c->set_output(2, c->Vector(twice_units));
  c->set_output(3, c->Vector(units));
  return absl::OkStatus();
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
    .SetShapeFn(cell_shapes)
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
    .SetShapeFn(cell_grad_shapes)
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
    .SetShapeFn(cell_weight_grad_shapes)
    .Doc(R"doc(
The gradients of GRUBlockCell's weights, of what GRUBlockCellGrad gives.

    d_w_ru = [x h_prev]^T d_r_bar_u_bar         d_b_ru = sum(d_r_bar_u_bar)
    d_w_c = [x (r * h_prev)]^T d_c_bar          d_b_c = sum(d_c_bar)

d_w_ru, d_w_c, d_b_ru, d_b_c: as the weights themselves.
)doc");

}  // namespace fused_rnn
