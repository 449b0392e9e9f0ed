// What the cells are made of when kernels are compiled: the numbers of
// core/rnn.h as constants.
#ifndef FUSED_RNN_CORE_CUDA_CELLS_H_
#define FUSED_RNN_CORE_CUDA_CELLS_H_

#include <type_traits>

#include "core/rnn.h"

namespace fused_rnn {
namespace cuda {

template <Cell kCell, bool kResetAfter>
struct CellOf {
  static constexpr RnnOptions kOptions = {kCell, kResetAfter};
  static constexpr int kGates = gate_count(kOptions);
  static constexpr int kGradients = gate_gradient_count(kOptions);
  static constexpr bool kResetsAfter = resets_after(kOptions);
  static constexpr int kStages = two_stages(kOptions) ? 2 : 1;
  static constexpr bool kHasCellState = has_cell_state(kOptions);
  // Of the forward pass, with g(c_t).
  static constexpr int kReserve = reserve_count(kOptions) + kHasCellState;
};
using GruBefore = CellOf<Cell::kGru, false>;
using GruAfter = CellOf<Cell::kGru, true>;
using Lstm = CellOf<Cell::kLstm, false>;
using SimpleRnn = CellOf<Cell::kSimpleRnn, false>;

// What of a step lies between two products, and the gates of the first of them:
// [kFrom, kEnd).
template <int kStage>
using Stage = std::integral_constant<int, kStage>;
template <class Cell, int kStage>
struct StageGates {
  static constexpr int kFrom = kStage == 0 ? 0 : kCandidate;
  static constexpr int kEnd =
      Cell::kStages == 2 && kStage == 0 ? kCandidate : Cell::kGates;
};

// body(cell), of the type that belongs to the options.
template <class Body>
auto with_cell(const RnnOptions& options, Body body) {
  switch (options.cell) {
    case Cell::kLstm:
      return body(Lstm());
    case Cell::kSimpleRnn:
      return body(SimpleRnn());
    case Cell::kGru:
      break;
  }
  return options.reset_after ? body(GruAfter()) : body(GruBefore());
}
// body(cell, stage)
template <class Body>
auto with_stage(const RnnOptions& options, int stage, Body body) {
  return with_cell(options, [&](auto cell) {
    if constexpr (decltype(cell)::kStages == 2)
      if (stage == 1) return body(cell, Stage<1>());
    return body(cell, Stage<0>());
  });
}

}  // namespace cuda
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CUDA_CELLS_H_
