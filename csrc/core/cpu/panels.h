// A weight matrix as the register blocks read it: panels of a few vectors of
// columns, each panel's rows contiguous.
#ifndef FUSED_RNN_CORE_CPU_PANELS_H_
#define FUSED_RNN_CORE_CPU_PANELS_H_

#include <algorithm>
#include <type_traits>

#include "core/cpu/kernels.h"
#include "core/cpu/split.h"
#include "core/cpu/workspace.h"

namespace fused_rnn {

// How panels come about. Packed: once, for many steps. Streamed: piece by piece
// when used, into a buffer of the thread, for one step of many rows. In place:
// read from the caller's matrix, for few rows. Row by row: in place and along
// the matrix, for one row and weights that no cache holds.
enum class Packing { kPacked, kStreamed, kInPlace, kRowByRow };

// Rows of a streamed piece: three vectors wide it takes half of an L1 cache.
constexpr Index kStreamDepth = 128;

constexpr Index kLine = 64;  // bytes of a cache line

// The [depth, columns] matrix that `source` stores plain, or transposed:
// element (k, j) at source.data[j * source.row + k]. A panel is named by its
// first column, a multiple of the vector width, and its number of columns.
template <class T>
class Panels {
 public:
  using C = Compute<T>;

  Panels() = default;
  Panels(Rows<const T> source, bool transposed, Index depth, Index columns,
         Packing packing, const Kernels<T>& kernels)
      : source_(source),
        transposed_(transposed),
        depth_(depth),
        columns_(columns),
        packing_(packing),
        kernels_(&kernels) {
    if (packing_ == Packing::kInPlace &&
        (transposed_ || !std::is_same<T, C>::value))
      packing_ = Packing::kStreamed;
  }

  void take(Workspace& workspace) {
    if (packing_ == Packing::kPacked)
      packed_ = workspace.take<C>(depth_ * padded(columns_));
  }
  // Elements of the buffer that product() needs for panels of so many columns.
  Index buffer_size(Index panel_columns) const {
    switch (packing_) {
      case Packing::kPacked:
      case Packing::kRowByRow:
        return 0;
      case Packing::kStreamed:
        return std::min(depth_, kStreamDepth) * padded(panel_columns);
      case Packing::kInPlace:
        return std::min(depth_, kStreamDepth) * kernels_->width;
    }
    return 0;
  }

  // Before product(), when packed; the same (j, count) must be asked for later.
  void pack(Index j, Index count) {
    if (packing_ == Packing::kPacked)
      pack_piece(j, count, 0, depth_, packed_ + j * depth_);
  }

  // c = init + a·(columns [j, j + count)) over the first `depth` rows, which
  // are all or none. c and init stand at column j; init may be c.
  void product(Index rows, Rows<const C> a, Index depth, Index j, Index count,
               C* buffer, Rows<const C> init, Rows<C> c) const {
    if (packing_ == Packing::kRowByRow) {
      for (Index i = 0; i < rows; ++i)
        kernels_->row_product(a.data + i * a.row, depth,
                              {source_.data + j, source_.row}, count,
                              init.data + i * init.row, c.data + i * c.row);
      return;
    }
    if (depth == 0 || packing_ == Packing::kPacked) {
      const Rows<const C> panel{packed_ + j * depth_, padded(count)};
      multiply(rows, a, depth, panel, count, init, c,
               panel_behind(panel, depth, blocks_of(rows, count)));
      return;
    }
    Index done = 0;
    if constexpr (std::is_same<T, C>::value) {
      if (packing_ == Packing::kInPlace) {
        // Columns that do not fill a vector cannot be read in place: whole
        // vectors would leave the matrix.
        done = count / kernels_->width * kernels_->width;
        if (done > 0)
          multiply(rows, a, depth, {source_.data + j, source_.row}, done, init,
                   c, Ahead{});
      }
    }
    if (done == count) return;
    init.data += done;
    c.data += done;
    for (Index k = 0; k < depth; k += kStreamDepth) {
      const Index piece = std::min(kStreamDepth, depth - k);
      pack_piece(j + done, count - done, k, piece, buffer);
      const Index next = k + piece;
      Ahead ahead;
      if (!transposed_ && next < depth)
        ahead = rows_of(source_.data + next * source_.row + j + done,
                        count - done);
      multiply(rows, {a.data + k, a.row}, piece,
               {buffer, padded(count - done)}, count - done, init, c, ahead);
      init = {c.data, c.row};
    }
  }

 private:
  Index padded(Index count) const { return round_up(count, kernels_->width); }

  void pack_piece(Index j, Index count, Index k, Index depth, C* to) const {
    if (transposed_)
      kernels_->pack_transposed(source_.data + j * source_.row + k, source_.row,
                                depth, count, to, padded(count));
    else
      kernels_->pack(source_.data + k * source_.row + j, source_.row, depth,
                     count, to, padded(count));
  }

  // What register blocks fetch while they work: block n, while n < blocks, a
  // line from first + n * block + k * step bytes for each k.
  struct Ahead {
    Index blocks = 0;
    const char* first = nullptr;
    Index block = 0;
    Index step = 0;
  };

  // The panel behind a packed one, in even shares. Two blocks or one take theirs
  // as fast as it comes: nothing to be hidden.
  static Ahead panel_behind(Rows<const C> panel, Index depth, Index blocks) {
    if (blocks <= 2) return {};
    const Index step = panel.row * static_cast<Index>(sizeof(C)) / blocks;
    return {blocks,
            reinterpret_cast<const char*>(panel.data + depth * panel.row),
            depth * step, step};
  }
  // Rows of the caller's matrix, each block one column of lines; a row that is
  // not aligned has one more than it fills.
  Ahead rows_of(const T* first, Index columns) const {
    const auto size = static_cast<Index>(sizeof(T));
    return {columns * size / kLine + 1, reinterpret_cast<const char*>(first),
            kLine, source_.row * size};
  }

  int block_rows(Index count) const {
    int rows = kernels_->block_rows;
    while (kernels_->max_vectors[rows] < padded(count) / kernels_->width)
      --rows;
    return rows;
  }
  Index blocks_of(Index rows, Index count) const {
    return ceil_div(rows, block_rows(count));
  }

  // Any number of rows, in register blocks of even size.
  void multiply(Index rows, Rows<const C> a, Index depth, Rows<const C> b,
                Index count, Rows<const C> init, Rows<C> c,
                const Ahead& ahead) const {
    const Index vectors = padded(count) / kernels_->width;
    const Index blocks = blocks_of(rows, count);
    for (Index n = 0, i = 0; n < blocks; ++n) {
      const Index end = rows * (n + 1) / blocks;
      const bool fetch = n < ahead.blocks;
      const TileArgs<C> tile{
          a.data + i * a.row, a.row, b.data, b.row, depth,
          init.data + i * init.row, init.row, c.data + i * c.row, c.row,
          fetch ? ahead.first + n * ahead.block
                : reinterpret_cast<const char*>(b.data),
          fetch ? ahead.step : 0};
      kernels_->tile[end - i][vectors](tile);
      i = end;
    }
  }

  Rows<const T> source_;
  bool transposed_ = false;
  Index depth_ = 0;
  Index columns_ = 0;
  Packing packing_ = Packing::kPacked;
  const Kernels<T>* kernels_ = nullptr;
  C* packed_ = nullptr;
};

// Calls body(j, count) for the panels of a range of columns.
template <class Body>
void for_each_panel(Index first, Index count, Index panel_columns, Body body) {
  for (Index j = first, end = first + count; j < end; j += panel_columns)
    body(j, std::min(panel_columns, end - j));
}

// Packs what falls to a part of these matrices, all with panels so wide.
template <class T>
void pack_share(Panels<T>* matrices, int count, const Split& split, Index part,
                Index panel_columns) {
  const Slice share = split.share_of_panels(part, panel_columns);
  for (int m = 0; m < count; ++m)
    for_each_panel(share.unit, share.units, panel_columns,
                   [&](Index j, Index n) { matrices[m].pack(j, n); });
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CPU_PANELS_H_
