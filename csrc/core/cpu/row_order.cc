#include "core/cpu/row_order.h"

#include <algorithm>
#include <numeric>

namespace fused_rnn {

void RowOrder::take(Workspace& workspace, const Mask& mask,
                    const RnnShape& shape, const Split& split) {
  mask_ = mask;
  shape_ = shape;
  split_ = split;
  if (!masked()) return;
  // Twice: sorting needs a second copy of both.
  position_ = workspace.take<Index>(2 * shape.batch);
  length_ = workspace.take<Index>(2 * shape.batch);
}

void RowOrder::build() {
  if (!masked()) return;
  const Index batch = shape_.batch;
  Index* rank = position_ + batch;
  Index* length = length_ + batch;
  bool equal = true;
  for (Index b = 0; b < batch; ++b) {
    Index end = shape_.steps;
    while (end > 0 && !at(end - 1, b)) --end;
    length[b] = end;
    equal = equal && end == length[0];
  }
  sorted_ = !equal;
  if (!sorted_) {
    std::copy(length, length + batch, length_);
    return;
  }
  std::iota(rank, rank + batch, Index{0});
  std::stable_sort(rank, rank + batch,
                   [&](Index a, Index b) { return length[a] > length[b]; });
  // Deal the rows out, so that parts get equal shares of long and short ones.
  const Index parts = split_.by_rows ? split_.parts : 1;
  Index next = 0;
  for (Index part = 0; part < parts; ++part)
    for (Index i = part; i < batch; i += parts) position_[next++] = rank[i];
  for (Index p = 0; p < batch; ++p) length_[p] = length[position_[p]];
}

Index RowOrder::active(const Slice& slice, Index t) const {
  if (!masked()) return slice.rows;
  const Index* first = length_ + slice.row;
  return std::partition_point(first, first + slice.rows,
                              [t](Index length) { return length > t; }) -
         first;
}

bool RowOrder::holes(const Slice& slice, Index t, Index count,
                     std::uint8_t* valid) const {
  if (!masked()) return false;
  bool any = false;
  for (Index i = 0; i < count; ++i) {
    valid[i] = at(t, batch(slice.row + i));
    any = any || !valid[i];
  }
  return any;
}

Index RowOrder::previous_valid(Index t, Index position) const {
  Index s = t - 1;
  if (masked())
    while (s >= 0 && !at(s, batch(position))) --s;
  return s;
}

}  // namespace fused_rnn
