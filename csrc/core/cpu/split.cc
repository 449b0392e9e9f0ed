#include "core/cpu/split.h"

#include <algorithm>

#include "core/cpu/workspace.h"
#include "core/rnn.h"

namespace fused_rnn {
namespace {

// Multiply-adds that take about as long as waking a thread (5 µs at some 50 a
// nanosecond on one AVX-512 core, 3 times that to gain by it).
constexpr Index kWorkWorthAThread = 750 * 1000;
// The same for a barrier among running threads, 0.3 to 0.5 µs.
constexpr Index kWorkWorthABarrier = 60 * 1000;

}  // namespace

Index panel_columns(Index columns, Index rows, int width, int block_rows,
                    const int* max_vectors) {
  const Index blocks = std::max<Index>(1, ceil_div(rows, block_rows));
  const Index block = std::max<Index>(1, ceil_div(rows, blocks));
  const Index vectors = std::max<Index>(1, ceil_div(columns, width));
  const Index panels = ceil_div(vectors, max_vectors[block]);
  return ceil_div(vectors, panels) * width;
}

Split choose_split(const SplitQuestion& q) {
  Split split;
  split.batch = q.batch;
  split.units = q.units;
  split.width = q.width;
  // Few rows wait for the weights rather than for the arithmetic.
  constexpr Index kRowsWorthOfWeights = 3;
  const Index step_work =
      std::max<Index>(1, q.step_work) * std::max(kRowsWorthOfWeights, q.batch);
  const Index work = step_work * std::max<Index>(1, q.steps);
  const Index wanted = std::clamp<Index>(work / kWorkWorthAThread, 1,
                                         std::max(1, q.threads));
  const bool barrier_pays = step_work / wanted >= kWorkWorthABarrier;
  // Without steps to come there is no barrier to be saved, and packing weights
  // once instead of in each part is worth it for few rows.
  const bool rows_pay =
      q.steps > 1 ? q.batch >= wanted * q.block_rows || !barrier_pays
                  : q.batch / wanted >= q.one_step_rows;
  if (rows_pay) {
    split.by_rows = true;
    split.parts = std::min(wanted, std::max<Index>(1, q.batch));
  }
  const Index rows = split.by_rows ? ceil_div(q.batch, split.parts) : q.batch;
  Index columns = q.units;
  if (!split.by_rows) {
    const Index vectors = std::max<Index>(1, ceil_div(q.units, q.width));
    split.parts = std::min(wanted, vectors);
    columns = ceil_div(vectors, split.parts) * q.width;
  }
  split.panel_columns = panel_columns(columns, rows, q.width, q.block_rows,
                                      q.max_vectors);
  return split;
}

std::chrono::microseconds patience(const Split& split, int gates, Index steps,
                                   Index element_bytes) {
  const Index weight_bytes =
      gates * split.units * split.units * element_bytes;
  // From the L3 cache weights come at some 25 GB/s.
  constexpr Index kBytesAMicrosecond = 25 * 1000;
  if (split.by_rows || weight_bytes <= kCacheBytes ||
      weight_bytes / split.parts > kCacheBytes)
    return {};
  return std::chrono::microseconds(weight_bytes / kBytesAMicrosecond * steps);
}

Slice Split::slice(Index part) const {
  if (by_rows) {
    // The first batch % parts slices have the extra row: just what dealing
    // rows out in turn (RowOrder) gives them.
    const Index extra = batch % parts;
    return {part * (batch / parts) + std::min(part, extra),
            batch / parts + (part < extra), 0, units};
  }
  const Index vectors = ceil_div(units, width);
  const Index first = std::min(units, vectors * part / parts * width);
  const Index end = std::min(units, vectors * (part + 1) / parts * width);
  return {0, batch, first, end - first};
}

// The first slice has any extra row; units are spread evenly, so look.
Index Split::most_rows() const { return slice(0).rows; }
Index Split::most_units() const {
  Index most = 0;
  for (Index part = 0; part < parts; ++part)
    most = std::max(most, slice(part).units);
  return most;
}

Slice Split::share_of_panels(Index part, Index panel_columns) const {
  if (!by_rows) return slice(part);
  const Index panels = ceil_div(units, panel_columns);
  const Index first = panels * part / parts * panel_columns;
  const Index end =
      std::min(units, panels * (part + 1) / parts * panel_columns);
  return {0, batch, first, end - first};
}

}  // namespace fused_rnn
