// Definitions and shape functions of the sequence ops.
#include "absl/strings/str_join.h"
#include "tensorflow/core/framework/op.h"
#include "tf/rnn_sequence.h"
#include "tf/shape_rules.h"

namespace fused_rnn::rnn_ops {
namespace {

using Dims = Sizes<DimensionHandle>;

// The shapes of an op of one cell.
class SequenceShapes {
 public:
  SequenceShapes(InferenceContext* c, Cell cell, SequenceOp op)
      : c_(c), op_(op), columns_(gate_count(cell)), slots_(slot_count(cell)) {
    at_.cell = cell;
  }

  absl::Status infer() {
    TF_RETURN_IF_ERROR(read_attributes(c_, at_.cell, op_, &at_));
    TF_RETURN_IF_ERROR(find_sizes());
    for (std::size_t i = 0; i < at_.inputs.size(); ++i) {
      TF_RETURN_IF_ERROR(check(i, at_.inputs[i]));
    }
    if (op_ == SequenceOp::kForward) TF_RETURN_IF_ERROR(find_kept_steps());
    for (std::size_t i = 0; i < at_.outputs.size(); ++i) {
      c_->set_output(i, shape_of(at_.outputs[i]));
    }
    return absl::OkStatus();
  }

 private:
  // A size from whatever input knows it, from those first that state it.
  DimensionHandle find(Size size) const {
    std::vector<DimensionHandle> dims;
    for (const bool stating : {true, false}) {
      collect(stating, size, 1, &dims);
      if (size != Size::kUnits) continue;
      collect(stating, Size::kColumns, columns_, &dims);
      collect(stating, Size::kSlots, slots_, &dims);
    }
    return first_known(c_, dims);
  }

  void collect(bool stating, Size size, int by,
               std::vector<DimensionHandle>* dims) const {
    for (std::size_t i = 0; i < at_.inputs.size(); ++i) {
      if (at_.inputs[i].states_sizes != stating) continue;
      const auto& shape = at_.inputs[i].shape;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] != size) continue;
        const DimensionHandle dim = dim_of(c_, i, d);
        dims->push_back(by == 1 ? dim : quotient(c_, dim, by));
      }
    }
  }

  absl::Status find_sizes() {
    for (const Size size :
         {Size::kSteps, Size::kBatch, Size::kInputs, Size::kUnits}) {
      dims_[size] = find(size);
    }
    dims_[Size::kTwo] = c_->MakeDim(2);
    dims_[Size::kOutputSteps] = dims_[Size::kSteps];
    dims_[Size::kReserveSteps] = dims_[Size::kSteps];
    TF_RETURN_IF_ERROR(
        c_->Multiply(dims_[Size::kUnits], columns_, &dims_[Size::kColumns]));
    return c_->Multiply(dims_[Size::kUnits], slots_, &dims_[Size::kSlots]);
  }

  absl::Status find_kept_steps() {
    bool outputs, reserve = false;
    TF_RETURN_IF_ERROR(c_->GetAttr("return_sequences", &outputs));
    if (at_.output(Arg::kReserve) >= 0) {
      TF_RETURN_IF_ERROR(c_->GetAttr("keep_reserve", &reserve));
    }
    if (!outputs && !reserve) dims_[Size::kOutputSteps] = c_->MakeDim(0);
    if (!reserve) dims_[Size::kReserveSteps] = c_->MakeDim(0);
    return absl::OkStatus();
  }

  ShapeHandle shape_of(const Argument& argument) const {
    std::vector<DimensionHandle> dims;
    for (const Size size : argument.shape) dims.push_back(dims_[size]);
    return c_->MakeShape(dims);
  }

  absl::Status check(int i, const Argument& input) {
    if (input.arg == Arg::kDropout) {
      const DimensionHandle masks = dim_of(c_, i, 0);
      const bool shared = c_->ValueKnown(masks) && c_->Value(masks) == 1;
      dims_[Size::kMasks] = shared || !c_->ValueKnown(masks)
                                ? masks
                                : c_->MakeDim(columns_);
    }
    TF_RETURN_IF_ERROR(require_shape(c_, i, input.name, input.words.c_str(),
                                     shape_of(input), because()));
    // Where the units are not known, this much is.
    for (std::size_t d = 0; d < input.shape.size(); ++d) {
      const bool slots = input.shape[d] == Size::kSlots;
      if (!slots && input.shape[d] != Size::kColumns) continue;
      TF_RETURN_IF_ERROR(require_multiple(c_, i, input.name,
                                          input.words.c_str(), dim_of(c_, i, d),
                                          slots ? slots_ : columns_));
    }
    return absl::OkStatus();
  }

  std::string because() const {
    std::string text;
    for (std::size_t i = 0; i < at_.inputs.size(); ++i) {
      if (!at_.inputs[i].states_sizes) continue;
      absl::StrAppend(&text, text.empty() ? " (" : ", ", at_.inputs[i].name,
                      " is ", c_->DebugString(c_->input(i)));
    }
    return text + ")";
  }

  InferenceContext* c_;
  const SequenceOp op_;
  const int columns_, slots_;
  SequenceAttributes at_;
  Dims dims_;
};

// What the documentation says of each cell.
struct CellText {
  const char* title;
  const char* gates;
  const char* reserve;
};
CellText text_of(Cell cell) {
  switch (cell) {
    case Cell::kGru:
      return {"A gated recurrent unit over a whole sequence.",
              "Gates are in the order z (update), r (reset), c (candidate), as "
              "Keras has them.",
              "z, r, c and the recurrent product of c with reset_after, else "
              "z, nothing, c, r"};
    case Cell::kLstm:
      return {"A long short-term memory over a whole sequence.",
              "Gates are in the order i (input), f (forget), c (cell input), "
              "o (output), as Keras has them.",
              "i, f, c and o"};
    case Cell::kSimpleRnn:
      return {"A plain recurrent network over a whole sequence.",
              "There is one gate: the new state itself.", ""};
  }
  return {};
}

std::string argument_text(Cell cell, const Argument& argument) {
  switch (argument.arg) {
    case Arg::kX:
      return "what enters at each step; the first two swapped with time_major.";
    case Arg::kH0:
    case Arg::kC0:
      return "the first state; none: zeros.";
    case Arg::kBias:
      return cell == Cell::kGru
                 ? "or with reset_after [2, 3 * units], input and recurrent."
                 : "none: no bias.";
    case Arg::kMask:
      return "false where a step is left out: the states are carried and the "
             "output repeats the output before, or is zero.";
    case Arg::kDropout:
      return "factors of the state on its way into the product of each gate.";
    case Arg::kOutputs:
      return "in the order of processing; the first two swapped with "
             "time_major; of no steps where neither return_sequences nor "
             "keep_reserve wants them.";
    case Arg::kState:
    case Arg::kCellState:
      return "the last state.";
    case Arg::kCellStates:
      return "the cell state after each step, zero at masked steps; of no "
             "steps without keep_reserve.";
    case Arg::kReserve:
      return absl::StrCat("what the gradient needs: ", text_of(cell).reserve,
                          "; of no steps without keep_reserve.");
    case Arg::kDOutputs:
    case Arg::kDState:
    case Arg::kDCellState:
      return "what arrives; none: zeros.";
    case Arg::kDGates:
      return "gradients before the activations, in the order of processing; "
             "zero at masked steps. Of a GRU the last is that of the recurrent "
             "product of c with reset_after, else r itself.";
    case Arg::kDX:
      return "as x, zero at masked steps.";
    default:
      return "as Keras has it.";
  }
}

std::string documentation(Cell cell, SequenceOp op,
                          const std::vector<Argument>& inputs,
                          const std::vector<Argument>& outputs) {
  const CellText text = text_of(cell);
  const char* name = cell_name(cell);
  std::string doc;
  switch (op) {
    case SequenceOp::kForward:
      doc = absl::StrCat(text.title, "\n\n", text.gates, "\n");
      break;
    case SequenceOp::kGrad:
      doc = absl::StrCat(
          "The gradient of ", name, ", as far as it runs through time.\n\n",
          "x, kernel and bias are there for the gradient of this op alone. ",
          name, "InputGrad and ", name,
          "WeightGrad make the other gradients of d_gates.\n");
      break;
    case SequenceOp::kInputGrad:
      doc = absl::StrCat("The gradient of ", name, "'s x.\n");
      break;
    case SequenceOp::kWeightGrad:
      doc = absl::StrCat("The gradients of ", name, "'s weights.\n");
      break;
  }
  absl::StrAppend(&doc, "\nA list holds one tensor, or none.\n\n");
  SequenceLayout layout;
  layout.cell = cell;
  for (const auto* arguments : {&inputs, &outputs}) {
    for (const Argument& argument : *arguments) {
      Argument shape = argument;
      shape.arg = Arg::kX;  // The words for the shape alone.
      absl::StrAppend(&doc, argument.name, ": ", shape_words(shape, layout),
                      ", ", argument_text(cell, argument), "\n");
    }
  }
  return doc;
}

std::string activation_attribute(const char* name, const char* otherwise) {
  const std::string names = absl::StrJoin(
      kActivations, ", ", [](std::string* text, const NamedActivation& known) {
        absl::StrAppend(text, "'", known.name, "'");
      });
  return absl::StrCat(name, ": {", names, "} = '", otherwise, "'");
}

void define(Cell cell, SequenceOp op) {
  const std::string name = op_name(cell, op);
  SequenceLayout layout;
  layout.cell = cell;
  const auto inputs = inputs_of(op, layout);
  const auto outputs = outputs_of(op, layout);
  tensorflow::register_op::OpDefBuilderWrapper definition(name.c_str());
  definition.Attr("T: {half, bfloat16, float, double}");
  const auto declare = [](const Argument& argument, const std::string& count) {
    const char* type = argument.arg == Arg::kMask ? "bool" : "T";
    return argument.optional
               ? absl::StrCat(argument.name, ": ", count, " * ", type)
               : absl::StrCat(argument.name, ": ", type);
  };
  for (const Argument& input : inputs) {
    const std::string count = absl::StrCat("num_", input.name);
    if (input.optional) definition.Attr(count + ": int >= 0");
    definition.Input(declare(input, count));
  }
  if (op == SequenceOp::kWeightGrad) definition.Attr("num_bias: int >= 0");
  for (const Argument& output : outputs) {
    definition.Output(declare(output, "num_bias"));
  }
  if (cell == Cell::kGru && op != SequenceOp::kInputGrad) {
    definition.Attr("reset_after: bool = true");
  }
  definition.Attr("go_backwards: bool = false");
  definition.Attr("time_major: bool = false");
  if (op == SequenceOp::kForward || op == SequenceOp::kGrad) {
    definition.Attr("zero_output_for_mask: bool = false");
    definition.Attr(activation_attribute("activation", "tanh"));
    if (cell != Cell::kSimpleRnn) {
      definition.Attr(activation_attribute("recurrent_activation", "sigmoid"));
    }
  }
  if (op == SequenceOp::kForward) {
    definition.Attr("return_sequences: bool = true");
    if (cell != Cell::kSimpleRnn) definition.Attr("keep_reserve: bool = true");
  }
  definition.Doc(documentation(cell, op, inputs, outputs));
  definition.SetShapeFn([cell, op](InferenceContext* c) {
    return SequenceShapes(c, cell, op).infer();
  });
  definition();
}

// As REGISTER_OP does while the library is loaded.
const bool defined = [] {
  for (const Cell cell : kCells) {
    for (const SequenceOp op : kSequenceOps) define(cell, op);
  }
  return true;
}();

}  // namespace
}  // namespace fused_rnn::rnn_ops
