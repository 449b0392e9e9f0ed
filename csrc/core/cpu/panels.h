// A weight matrix as the register blocks read it: panels of a few vectors of
// columns, each panel's rows contiguous.
#ifndef FUSED_RNN_CORE_CPU_PANELS_H_
#define FUSED_RNN_CORE_CPU_PANELS_H_

#include <algorithm>
#include <type_traits>

#include "core/cpu/kernels.h"
#include "core/cpu/workspace.h"

namespace fused_rnn {

// How panels come about. Packed: once, for many steps. Streamed: each when it
// is used, into a buffer of the thread, for one step of many rows. In place:
// read from the caller's matrix, for few rows.
enum class Packing { kPacked, kStreamed, kInPlace };

template <class C>
struct Panel {
  const C* b;
  Index b_k;
  int vectors;
};

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

  // Before panel(), when packed; the same (j, count) must be asked for later.
  void pack(Index j, Index count) {
    if (packing_ == Packing::kPacked) pack_to(j, count, packed_ + j * depth_);
  }

  // `buffer` holds depth times the padded count elements.
  Panel<C> panel(Index j, Index count, C* buffer) const {
    const Index wide = padded(count);
    const int vectors = static_cast<int>(wide / kernels_->width);
    if (packing_ == Packing::kPacked)
      return {packed_ + j * depth_, wide, vectors};
    if constexpr (std::is_same<T, C>::value) {
      // Columns that do not fill the last vector cannot be read in place:
      // whole vectors would leave the matrix.
      if (packing_ == Packing::kInPlace && wide == count)
        return {source_.data + j, source_.row, vectors};
    }
    pack_to(j, count, buffer);
    return {buffer, wide, vectors};
  }

  Index depth() const { return depth_; }

 private:
  Index padded(Index count) const { return round_up(count, kernels_->width); }
  void pack_to(Index j, Index count, C* to) const {
    if (transposed_)
      kernels_->pack_transposed(source_.data + j * source_.row, source_.row,
                                depth_, count, to, padded(count));
    else
      kernels_->pack(source_.data + j, source_.row, depth_, count, to,
                     padded(count));
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

// c = init + a·panel for any number of rows, in register blocks of even size.
template <class T, class C = Compute<T>>
void multiply(const Kernels<T>& kernels, Index rows, Rows<const C> a,
              Index depth, const Panel<C>& panel, Rows<const C> init,
              Rows<C> c) {
  int block = kernels.block_rows;
  while (kernels.max_vectors[block] < panel.vectors) --block;
  const Index blocks = ceil_div(rows, block);
  for (Index n = 0, i = 0; n < blocks; ++n) {
    const Index end = rows * (n + 1) / blocks;
    const TileArgs<C> tile{a.data + i * a.row,       a.row, panel.b,
                           panel.b_k,                depth,
                           init.data + i * init.row, init.row,
                           c.data + i * c.row,       c.row};
    kernels.tile[end - i][panel.vectors](tile);
    i = end;
  }
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CPU_PANELS_H_
