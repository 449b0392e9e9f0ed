// The sequence ops of all cells, as op definitions and kernels both need them:
// names, arguments in order, the shape of each, and where each stands when some
// are absent.
#ifndef FUSED_RNN_TF_RNN_SEQUENCE_H_
#define FUSED_RNN_TF_RNN_SEQUENCE_H_

#include <array>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/rnn.h"
#include "tensorflow/core/platform/errors.h"

namespace fused_rnn::rnn_ops {

enum class SequenceOp { kForward, kGrad, kInputGrad, kWeightGrad };

constexpr Cell kCells[] = {Cell::kGru, Cell::kLstm, Cell::kSimpleRnn};
constexpr SequenceOp kSequenceOps[] = {SequenceOp::kForward, SequenceOp::kGrad,
                                       SequenceOp::kInputGrad,
                                       SequenceOp::kWeightGrad};

const char* cell_name(Cell cell);
// Such as FusedRNN>LSTMGrad.
std::string op_name(Cell cell, SequenceOp op);

// What a dimension counts.
enum class Size {
  kTwo,
  kSteps,
  kOutputSteps,   // none where nobody wants the outputs
  kReserveSteps,  // none in inference
  kBatch,
  kInputs,
  kUnits,
  kColumns,  // units of every gate
  kSlots,    // values of a row and step in the reserve and the gate gradients
  kMasks,    // of recurrent dropout: one a gate, or one for all
};
constexpr int kSizeCount = 10;
template <class Value>
struct Sizes : std::array<Value, kSizeCount> {
  Value& operator[](Size size) {
    return this->std::array<Value, kSizeCount>::operator[](
        static_cast<int>(size));
  }
  const Value& operator[](Size size) const {
    return const_cast<Sizes&>(*this)[size];
  }
};

inline int gate_count(Cell cell) {
  RnnOptions options;
  options.cell = cell;
  return fused_rnn::gate_count(options);
}
// A GRU has as many slots either way, so that one shape serves both.
inline int slot_count(Cell cell) {
  RnnOptions options;
  options.cell = cell;
  options.reset_after = true;
  return gate_gradient_count(options);
}

enum class Arg {
  kX,
  kH0,
  kC0,
  kKernel,
  kRecurrentKernel,
  kBias,
  kMask,
  kDropout,
  kOutputs,
  kState,
  kCellState,
  kCellStates,
  kReserve,
  kDOutputs,
  kDState,
  kDCellState,
  kDH0,
  kDC0,
  kDGates,
  kDX,
  kDKernel,
  kDRecurrentKernel,
  kDBias,
};
constexpr int kArgCount = 23;

// An input or output of an op.
struct Argument {
  Arg arg = Arg::kX;
  const char* name = "";
  std::vector<Size> shape;
  bool optional = false;  // a list of one tensor, or none
  // Whether the sizes are taken from it, which others must then have.
  bool states_sizes = false;
  std::string words;  // the shape, once attributes are read
};

// What decides on the shapes.
struct SequenceLayout {
  Cell cell = Cell::kGru;
  bool reset_after = false;
  bool time_major = false;
};

std::vector<Argument> inputs_of(SequenceOp op, const SequenceLayout& layout);
std::vector<Argument> outputs_of(SequenceOp op, const SequenceLayout& layout);
// Such as [batch size, 3 * units].
std::string shape_words(const Argument& argument, const SequenceLayout& layout);

// The attributes of one of the ops, and its arguments.
struct SequenceAttributes : SequenceLayout {
  SequenceAttributes() { find_arguments(); }

  bool go_backwards = false;
  std::vector<Argument> inputs, outputs;  // those that are there

  // Where an argument stands, or -1 where there is none.
  int input(Arg arg) const { return input_index[static_cast<int>(arg)]; }
  int output(Arg arg) const { return output_index[static_cast<int>(arg)]; }
  void find_arguments();

  std::array<int, kArgCount> input_index, output_index;
};

// Context is OpKernelConstruction or InferenceContext.
template <class Context>
absl::Status read_attributes(Context* c, Cell cell, SequenceOp op,
                             SequenceAttributes* a) {
  a->cell = cell;
  TF_RETURN_IF_ERROR(c->GetAttr("go_backwards", &a->go_backwards));
  TF_RETURN_IF_ERROR(c->GetAttr("time_major", &a->time_major));
  if (cell == Cell::kGru && op != SequenceOp::kInputGrad) {
    TF_RETURN_IF_ERROR(c->GetAttr("reset_after", &a->reset_after));
  }
  const auto keep_present = [c, a](std::vector<Argument> all,
                                std::vector<Argument>* present) {
    for (Argument& argument : all) {
      int count = 1;
      if (argument.optional) {
        const std::string name = argument.arg == Arg::kDBias
                                     ? "num_bias"
                                     : absl::StrCat("num_", argument.name);
        TF_RETURN_IF_ERROR(c->GetAttr(name, &count));
      }
      if (count > 1) {
        return absl::InvalidArgumentError(absl::StrCat(
            argument.name, " must hold at most one tensor, got ", count));
      }
      if (count == 0) continue;
      present->push_back(std::move(argument));
      present->back().words = shape_words(present->back(), *a);
    }
    return absl::OkStatus();
  };
  TF_RETURN_IF_ERROR(keep_present(inputs_of(op, *a), &a->inputs));
  TF_RETURN_IF_ERROR(keep_present(outputs_of(op, *a), &a->outputs));
  a->find_arguments();
  return absl::OkStatus();
}

}  // namespace fused_rnn::rnn_ops

#endif  // FUSED_RNN_TF_RNN_SEQUENCE_H_
