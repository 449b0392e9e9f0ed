// The tables of the sequence ops.
#include "tf/rnn_sequence.h"

#include <utility>

#include "absl/strings/str_join.h"

namespace fused_rnn::rnn_ops {
namespace {

// Of a sequence in the caller's layout.
std::vector<Size> sequence(const SequenceLayout& layout, Size steps,
                           Size last) {
  return layout.time_major ? std::vector<Size>{steps, Size::kBatch, last}
                           : std::vector<Size>{Size::kBatch, steps, last};
}
// Of one in the order of processing.
std::vector<Size> kept(Size steps, Size last) {
  return {steps, Size::kBatch, last};
}
std::vector<Size> state_shape() { return {Size::kBatch, Size::kUnits}; }
std::vector<Size> kernel_shape() { return {Size::kInputs, Size::kColumns}; }
std::vector<Size> recurrent_shape() { return {Size::kUnits, Size::kColumns}; }
std::vector<Size> bias_shape(const SequenceLayout& layout) {
  if (layout.reset_after) return {Size::kTwo, Size::kColumns};
  return {Size::kColumns};
}

Argument required(Arg arg, const char* name, std::vector<Size> shape) {
  Argument argument;
  argument.arg = arg;
  argument.name = name;
  argument.shape = std::move(shape);
  return argument;
}
Argument optional(Arg arg, const char* name, std::vector<Size> shape) {
  Argument argument = required(arg, name, std::move(shape));
  argument.optional = true;
  return argument;
}
Argument states_sizes(Argument argument) {
  argument.states_sizes = true;
  return argument;
}

std::string multiple_of_units(int by) {
  return by == 1 ? "units" : absl::StrCat(by, " * units");
}

std::string words(Size size, Cell cell) {
  switch (size) {
    case Size::kTwo:
      return "2";
    case Size::kSteps:
    case Size::kOutputSteps:
    case Size::kReserveSteps:
      return "steps";
    case Size::kBatch:
      return "batch size";
    case Size::kInputs:
      return "input size";
    case Size::kUnits:
      return "units";
    case Size::kColumns:
      return multiple_of_units(gate_count(cell));
    case Size::kSlots:
      return multiple_of_units(slot_count(cell));
    case Size::kMasks:
      return gate_count(cell) == 1 ? "1"
                                   : absl::StrCat(gate_count(cell), " or 1");
  }
  return "";
}

}  // namespace

const char* cell_name(Cell cell) {
  switch (cell) {
    case Cell::kGru:
      return "GRU";
    case Cell::kLstm:
      return "LSTM";
    case Cell::kSimpleRnn:
      return "SimpleRNN";
  }
  return "";
}

std::string op_name(Cell cell, SequenceOp op) {
  constexpr const char* kSuffixes[] = {"", "Grad", "InputGrad", "WeightGrad"};
  return absl::StrCat("FusedRNN>", cell_name(cell),
                      kSuffixes[static_cast<int>(op)]);
}

std::vector<Argument> inputs_of(SequenceOp op, const SequenceLayout& layout) {
  const bool lstm = layout.cell == Cell::kLstm;
  const std::vector<Size> states = sequence(layout, Size::kSteps, Size::kUnits);
  const Argument x = states_sizes(
      required(Arg::kX, "x", sequence(layout, Size::kSteps, Size::kInputs)));
  const Argument kernel = required(Arg::kKernel, "kernel", kernel_shape());
  const Argument h0 = optional(Arg::kH0, "h0", state_shape());
  const Argument mask =
      optional(Arg::kMask, "mask", {Size::kBatch, Size::kSteps});
  const Argument dropout =
      optional(Arg::kDropout, "recurrent_dropout_mask",
               {Size::kMasks, Size::kBatch, Size::kUnits});
  const Argument outputs = required(Arg::kOutputs, "outputs", states);
  const Argument d_gates = states_sizes(
      required(Arg::kDGates, "d_gates", kept(Size::kSteps, Size::kSlots)));
  if (op == SequenceOp::kInputGrad) {
    return {states_sizes(kernel), mask, d_gates};
  }
  if (op == SequenceOp::kWeightGrad) {
    return {x, h0, mask, dropout, outputs, d_gates};
  }

  std::vector<Argument> all = {x, h0};
  if (lstm) all.push_back(optional(Arg::kC0, "c0", state_shape()));
  all.push_back(kernel);
  all.push_back(states_sizes(required(
      Arg::kRecurrentKernel, "recurrent_kernel", recurrent_shape())));
  all.push_back(optional(Arg::kBias, "bias", bias_shape(layout)));
  all.push_back(mask);
  all.push_back(dropout);
  if (op == SequenceOp::kForward) return all;

  all.push_back(outputs);
  if (lstm) {
    all.push_back(required(Arg::kCellStates, "cell_states",
                           kept(Size::kSteps, Size::kUnits)));
  }
  if (layout.cell != Cell::kSimpleRnn) {
    all.push_back(
        required(Arg::kReserve, "reserve", kept(Size::kSteps, Size::kSlots)));
  }
  all.push_back(optional(Arg::kDOutputs, "d_outputs", states));
  all.push_back(optional(Arg::kDState, "d_state", state_shape()));
  if (lstm) {
    all.push_back(optional(Arg::kDCellState, "d_cell_state", state_shape()));
  }
  return all;
}

std::vector<Argument> outputs_of(SequenceOp op, const SequenceLayout& layout) {
  const bool lstm = layout.cell == Cell::kLstm;
  std::vector<Argument> all;
  switch (op) {
    case SequenceOp::kForward:
      all = {required(Arg::kOutputs, "outputs",
                      sequence(layout, Size::kOutputSteps, Size::kUnits)),
             required(Arg::kState, "state", state_shape())};
      if (lstm) {
        all.push_back(required(Arg::kCellState, "cell_state", state_shape()));
        all.push_back(required(Arg::kCellStates, "cell_states",
                               kept(Size::kReserveSteps, Size::kUnits)));
      }
      if (layout.cell != Cell::kSimpleRnn) {
        all.push_back(required(Arg::kReserve, "reserve",
                               kept(Size::kReserveSteps, Size::kSlots)));
      }
      break;
    case SequenceOp::kGrad:
      all = {required(Arg::kDH0, "d_h0", state_shape())};
      if (lstm) all.push_back(required(Arg::kDC0, "d_c0", state_shape()));
      all.push_back(
          required(Arg::kDGates, "d_gates", kept(Size::kSteps, Size::kSlots)));
      break;
    case SequenceOp::kInputGrad:
      all = {required(Arg::kDX, "d_x",
                      sequence(layout, Size::kSteps, Size::kInputs))};
      break;
    case SequenceOp::kWeightGrad:
      all = {required(Arg::kDKernel, "d_kernel", kernel_shape()),
             required(Arg::kDRecurrentKernel, "d_recurrent_kernel",
                      recurrent_shape()),
             optional(Arg::kDBias, "d_bias", bias_shape(layout))};
      break;
  }
  return all;
}

std::string shape_words(const Argument& argument,
                        const SequenceLayout& layout) {
  const std::string sizes = absl::StrJoin(
      argument.shape, ", ", [&](std::string* text, Size size) {
        absl::StrAppend(text, words(size, layout.cell));
      });
  const bool depends = argument.arg == Arg::kBias && layout.cell == Cell::kGru;
  return absl::StrCat("[", sizes, "]",
                      !depends             ? ""
                      : layout.reset_after ? " with reset_after"
                                           : " without reset_after");
}

void SequenceAttributes::find_arguments() {
  input_index.fill(-1);
  output_index.fill(-1);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    input_index[static_cast<int>(inputs[i].arg)] = static_cast<int>(i);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    output_index[static_cast<int>(outputs[i].arg)] = static_cast<int>(i);
  }
}

}  // namespace fused_rnn::rnn_ops
