// Shape rules as the ops state them: each argument's shape in words and in
// dimensions, so that a contradiction names the argument, what it must be and
// what came. Used by shape functions only; kernels check real sizes themselves.
#ifndef FUSED_RNN_TF_SHAPE_RULES_H_
#define FUSED_RNN_TF_SHAPE_RULES_H_

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fused_rnn {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// Dimension i of an input, unknown where its rank is unknown or too small (the
// merge of the whole shape reports that).
inline DimensionHandle dim_of(InferenceContext* c, int input, int i) {
  const ShapeHandle shape = c->input(input);
  if (!c->RankKnown(shape) || i >= c->Rank(shape)) return c->UnknownDim();
  return c->Dim(shape, i);
}

// The first of them whose value is known, else the first.
inline DimensionHandle first_known(InferenceContext* c,
                                   const std::vector<DimensionHandle>& dims) {
  for (const DimensionHandle& dim : dims) {
    if (c->ValueKnown(dim)) return dim;
  }
  return dims.empty() ? c->UnknownDim() : dims.front();
}

// dim / by, unknown where dim is unknown or not a multiple.
inline DimensionHandle quotient(InferenceContext* c, DimensionHandle dim,
                                int by) {
  if (!c->ValueKnown(dim) || c->Value(dim) % by != 0) return c->UnknownDim();
  return c->MakeDim(c->Value(dim) / by);
}

// a - b, unknown where that is not known or negative.
inline DimensionHandle difference(InferenceContext* c, DimensionHandle a,
                                  DimensionHandle b) {
  if (!c->ValueKnown(a) || !c->ValueKnown(b) || c->Value(a) < c->Value(b)) {
    return c->UnknownDim();
  }
  return c->MakeDim(c->Value(a) - c->Value(b));
}

// Requires that an input has this shape. `words` says it with the names of the
// sizes; `because` names what these sizes were taken from.
inline absl::Status require_shape(InferenceContext* c, int input,
                                  const char* name, const char* words,
                                  ShapeHandle expected,
                                  const std::string& because) {
  ShapeHandle merged;
  if (c->Merge(c->input(input), expected, &merged).ok()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      name, " must have shape ", words, " = ", c->DebugString(expected),
      ", got ", c->DebugString(c->input(input)), because));
}

inline absl::Status require_shape(InferenceContext* c, int input,
                                  const char* name, const char* words,
                                  std::initializer_list<DimensionHandle> dims,
                                  const std::string& because) {
  return require_shape(c, input, name, words, c->MakeShape(dims), because);
}

// Requires that a dimension, if it is known, is a multiple.
inline absl::Status require_multiple(InferenceContext* c, int input,
                                     const char* name, const char* words,
                                     DimensionHandle dim, int by) {
  if (!c->ValueKnown(dim) || c->Value(dim) % by == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must have shape ", words, ", got ",
                   c->DebugString(c->input(input))));
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_TF_SHAPE_RULES_H_
