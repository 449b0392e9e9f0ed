// What op definitions and kernels of the sequence ops share: attributes, and
// where each of the inputs stands when some are absent.
#ifndef FUSED_RNN_TF_GRU_SEQUENCE_H_
#define FUSED_RNN_TF_GRU_SEQUENCE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/platform/errors.h"

namespace fused_rnn {

// Words for the shapes of inputs, each in the layout that attributes choose.
struct SequenceWords {
  const char* x;
  const char* outputs;
  const char* bias;
};
constexpr char kH0Words[] = "[batch size, units]";
constexpr char kKernelWords[] = "[input size, 3 * units]";
constexpr char kRecurrentKernelWords[] = "[units, 3 * units]";
constexpr char kMaskWords[] = "[batch size, steps]";
constexpr char kDropoutWords[] = "[3, batch size, units]";
constexpr char kReserveWords[] = "[steps, batch size, 4 * units]";

struct SequenceAttributes {
  bool reset_after = true;
  bool go_backwards = false;
  bool time_major = false;
  // Index of each input, or -1 where there is none.
  int x = -1, h0 = -1, kernel = -1, recurrent_kernel = -1, bias = -1, mask = -1,
      dropout = -1, outputs = -1, reserve = -1, d_gates = -1, d_outputs = -1,
      d_state = -1;

  SequenceWords words() const {
    return {time_major ? "[steps, batch size, input size]"
                       : "[batch size, steps, input size]",
            time_major ? "[steps, batch size, units]"
                       : "[batch size, steps, units]",
            reset_after ? "[2, 3 * units] with reset_after"
                        : "[3 * units] without reset_after"};
  }
};

enum class SequenceOp { kForward, kGrad, kInputGrad, kWeightGrad };

// Takes the attributes of one of the ops; Context is OpKernelConstruction or
// InferenceContext.
template <class Context>
absl::Status read_attributes(Context* c, SequenceOp op,
                             SequenceAttributes* attributes) {
  SequenceAttributes& a = *attributes;
  TF_RETURN_IF_ERROR(c->GetAttr("go_backwards", &a.go_backwards));
  TF_RETURN_IF_ERROR(c->GetAttr("time_major", &a.time_major));
  if (op != SequenceOp::kInputGrad) {
    TF_RETURN_IF_ERROR(c->GetAttr("reset_after", &a.reset_after));
  }
  int next = 0;
  const auto required = [&](int* index) { *index = next++; };
  const auto optional = [&](const char* name, int* index) {
    const std::string attribute = absl::StrCat("num_", name);
    int count;
    TF_RETURN_IF_ERROR(c->GetAttr(attribute, &count));
    if (count > 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, " must hold at most one tensor, got ", count));
    }
    if (count == 1) *index = next++;
    return absl::OkStatus();
  };
  const bool whole = op == SequenceOp::kForward || op == SequenceOp::kGrad;
  if (op != SequenceOp::kInputGrad) {
    required(&a.x);
    TF_RETURN_IF_ERROR(optional("h0", &a.h0));
  }
  if (op != SequenceOp::kWeightGrad) required(&a.kernel);
  if (whole) {
    required(&a.recurrent_kernel);
    TF_RETURN_IF_ERROR(optional("bias", &a.bias));
  }
  TF_RETURN_IF_ERROR(optional("mask", &a.mask));
  if (op != SequenceOp::kInputGrad) {
    TF_RETURN_IF_ERROR(optional("recurrent_dropout_mask", &a.dropout));
  }
  if (op == SequenceOp::kForward) return absl::OkStatus();
  if (op != SequenceOp::kInputGrad) required(&a.outputs);
  if (op != SequenceOp::kGrad) {
    required(&a.d_gates);
    return absl::OkStatus();
  }
  required(&a.reserve);
  TF_RETURN_IF_ERROR(optional("d_outputs", &a.d_outputs));
  return optional("d_state", &a.d_state);
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_TF_GRU_SEQUENCE_H_
