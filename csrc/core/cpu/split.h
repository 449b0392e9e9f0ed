// How the work of a recurrence is cut into parts: by rows of the batch while
// there are rows (they are independent: no barrier in the whole sequence), else
// by units (a barrier a step and product).
#ifndef FUSED_RNN_CORE_CPU_SPLIT_H_
#define FUSED_RNN_CORE_CPU_SPLIT_H_

#include <chrono>
#include <limits>

#include "core/types.h"

namespace fused_rnn {

struct Slice {
  Index row = 0;  // first position in the batch
  Index rows = 0;
  Index unit = 0;
  Index units = 0;
};

struct Split {
  bool by_rows = false;
  Index parts = 1;
  Index batch = 0;
  Index units = 0;
  int width = 1;            // of a vector: slices start at whole ones
  Index panel_columns = 1;  // of the recurrent products

  // Whether no two parts read the same columns.
  bool whole_panels() const { return !by_rows || parts == 1; }

  Slice slice(Index part) const;
  // Rows and units of the largest slice.
  Index most_rows() const;
  Index most_units() const;
  // The columns whose panels a part packs: its own, or where all parts need
  // all columns, its share of whole panels.
  Slice share_of_panels(Index part, Index panel_columns) const;
};

struct SplitQuestion {
  int threads;
  Index steps;
  Index batch;
  Index units;
  // Multiply-adds of a row in one step: all products, and those that only
  // follow one another (no input projection).
  Index step_work;
  int width;
  int block_rows;
  const int* max_vectors;  // of a register block with so many rows
  // Rows of a part from which a single step is split by rows too. Every part
  // then reads all weights; no part waits for what others have computed.
  Index one_step_rows = kNever;

  static constexpr Index kNever = std::numeric_limits<Index>::max() / 2;
};

Split choose_split(const SplitQuestion&);

// How long a call that is split by columns may wait for its threads: as long as
// it loses by having one, where that one's cache cannot hold the recurrent
// weights and the shares of several can; else no time.
std::chrono::microseconds patience(const Split&, int gates, Index steps,
                                   Index element_bytes);

// Weights of a part that stay in its L2 cache of 2 MB, beside what else a step
// reads.
constexpr Index kCacheBytes = 1536 * 1024;

// Columns of a panel for products over `rows` rows at once: as many vectors as
// the register block leaves room for, evenly spread over `columns`.
Index panel_columns(Index columns, Index rows, int width, int block_rows,
                    const int* max_vectors);

}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CPU_SPLIT_H_
