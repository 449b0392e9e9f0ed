// The table of leaf kernels that one instruction set provides. All arithmetic
// on arrays goes through it; the time loops around it are plain C++.
//
// C is the compute type, its arrays are scratch whose rows are padded to whole
// vectors. T is the storage type, its arrays are the caller's and never touched
// beyond their width.
#ifndef FUSED_RNN_CORE_CPU_KERNELS_H_
#define FUSED_RNN_CORE_CPU_KERNELS_H_

#include "core/rnn.h"
#include "core/types.h"

namespace fused_rnn {

// Bounds of a register block over all instruction sets.
constexpr int kMaxRows = 8;
constexpr int kMaxVectors = 12;

// c[i, j] = init[i, j] + Σ_k a(i, k)·b[k, j] for one register block of `rows`
// rows and `vectors` vectors: one chain of multiply-adds over ascending k for
// each element, so its bits depend on neither the block's size nor its place.
//   a(i, k) = a[i * a_row + k], or of a transposed left side a[k * a_row + i]
//   b[k, j] = b[k * b_k + j]        whole vectors are read
//   init_row may be 0 (the same for all rows), init may be c
// Meanwhile it fetches what later blocks need, from L3 or memory: a line at
// ahead + k * ahead_step bytes for each k or, of a transposed left side, `rows`
// rows as wide as the block, ahead_step bytes apart. Any address will do.
template <class C>
struct TileArgs {
  const C* a;
  Index a_row;
  const C* b;
  Index b_k;
  Index k;
  const C* init;
  Index init_row;
  C* c;
  Index c_row;
  const char* ahead;
  Index ahead_step;
};
template <class C>
using TileKernel = void (*)(const TileArgs<C>&);

// Which rows of the caller's [B, N] arrays a block works on: row i is batch row
// position[i], or first + i without positions. valid[i] == 0 leaves row i
// alone; null: all are valid.
struct BlockRows {
  Index count = 0;
  Index first = 0;
  const Index* position = nullptr;
  const std::uint8_t* valid = nullptr;

  Index batch(Index i) const { return position ? position[i] : first + i; }
  bool skip(Index i) const { return valid && !valid[i]; }
  // How many batch rows further the row after row i lies.
  Index ahead(Index i) const {
    return i + 1 < count ? batch(i + 1) - batch(i) : 0;
  }
};

// The elementwise part of a forward step. Pointers stand at the block's first
// unit, scratch at its first row, the caller's arrays at batch row 0.
template <class T>
struct ForwardTile {
  using C = Compute<T>;
  BlockRows rows;
  Index units;
  RnnOptions options;

  Rows<const C> gate[kMaxGates];  // pre-activations
  Rows<const C> gh_c;    // GRU reset after: the recurrent candidate
  Rows<const C> h_prev;  // not padded: may be the caller's
  Rows<C> h_next;        // holds z between the stages of reset before
  Rows<C> reset_h;       // GRU reset before: r∘h_prev
  Rows<C> cell_state;    // LSTM: c, replaced by its successor
  const C* peephole[kMaxGates] = {};  // LSTM; null: none

  Rows<T> output;  // data null: not wanted, like each of the reserve
  Rows<T> reserve[kMaxReserve];
};

// The elementwise part of a backward step, pointers as above.
template <class T>
struct BackwardTile {
  using C = Compute<T>;
  BlockRows rows;
  Index units;
  RnnOptions options;

  // d_h_t but for this step's own output gradients; in the second stage of
  // reset before, the gradient of r∘h_prev.
  Rows<const C> d;
  Rows<C> carry;          // what reaches h_{t-1} besides the products; may be
                          // null where that is nothing
  Rows<C> output_carry;   // gradients of outputs that repeated h_t; may be null
  Rows<C> operand[kMaxGates];  // the gate gradients, for the next products
  Rows<C> d_cell_state;   // LSTM: of c_t but for this step's own, then c_{t-1}
  const C* peephole[kMaxGates] = {};  // LSTM; null: none

  // Each row's h_{t-1} and c_{t-1}, at unit 0; null: zeros.
  const T* const* h_prev;
  const T* const* c_prev;
  Index unit;             // of the block's first unit
  Rows<const T> output;   // simple RNN: h_t
  Rows<const T> reserve[kMaxReserve];
  Rows<const T> d_output;  // data null: zeros, like d_reserve
  Rows<const T> d_reserve[kMaxReserve];
  Rows<T> d_gates[kMaxGates];
};

template <class T>
struct Kernels {
  using C = Compute<T>;

  int width;                      // elements of a vector of C
  int block_rows;                 // rows of the best register block
  int max_vectors[kMaxRows + 1];  // vectors of a block with so many rows
  TileKernel<C> tile[kMaxRows + 1][kMaxVectors + 1];
  TileKernel<C> tile_transposed[kMaxRows + 1][kMaxVectors + 1];

  // c[j] = init[j] + Σ_k a[k]·b[k][j] for j < n: a register block's bits, for
  // one row and a matrix that is read in place. Whole vectors of init and c.
  void (*row_product)(const C* a, Index depth, Rows<const T> b, Index n,
                      const C* init, C* c);

  // dst[k][j] = src(k, j) for j < n, zeros up to padded columns.
  // Plain: src[k * src_row + j]; transposed: src[j * src_row + k].
  void (*pack)(const T* src, Index src_row, Index k, Index n, C* dst,
               Index padded);
  void (*pack_transposed)(const T* src, Index src_row, Index k, Index n, C* dst,
                          Index padded);
  // Between the caller's rows and scratch rows, n wide; scratch is padded with
  // zeros to a whole vector. src.data null: zeros.
  void (*read_rows)(Rows<const T> src, const BlockRows&, Index n, Rows<C> dst);
  void (*write_rows)(Rows<const C> src, const BlockRows&, Index n, Rows<T> dst);
  // dst[j / group * group_stride + i * group + j % group] = src(i, j), times
  // the others where they are not null; src null: zeros.
  void (*read_groups)(Rows<const T> src, Rows<const T> times,
                      Rows<const T> times_too, Index rows, Index n, C* dst,
                      Index group, Index group_stride);
  // dst += src; dst = m∘src; dst += m∘src
  void (*add_rows)(Rows<const T> src, const BlockRows&, Index n, Rows<C> dst);
  void (*scale_rows)(Rows<const C> src, Rows<const T> m, const BlockRows&,
                     Index n, Rows<C> dst);
  void (*add_scaled_rows)(Rows<const C> src, Rows<const T> m, const BlockRows&,
                          Index n, Rows<C> dst);

  // The gates of a stage of a step.
  using ForwardGates = void (*)(const ForwardTile<T>&);
  using BackwardGates = void (*)(const BackwardTile<T>&);
  ForwardGates gru_forward_after;
  ForwardGates gru_forward_before[2];
  ForwardGates lstm_forward;
  ForwardGates simple_forward;
  BackwardGates gru_backward_after;
  BackwardGates gru_backward_before[2];
  BackwardGates lstm_backward;
  BackwardGates simple_backward;

  ForwardGates forward_gates(const RnnOptions& options, int stage) const {
    switch (options.cell) {
      case Cell::kGru:
        return options.reset_after ? gru_forward_after
                                   : gru_forward_before[stage];
      case Cell::kLstm:
        return lstm_forward;
      case Cell::kSimpleRnn:
        return simple_forward;
    }
    return nullptr;
  }
  BackwardGates backward_gates(const RnnOptions& options, int stage) const {
    switch (options.cell) {
      case Cell::kGru:
        return options.reset_after ? gru_backward_after
                                   : gru_backward_before[stage];
      case Cell::kLstm:
        return lstm_backward;
      case Cell::kSimpleRnn:
        return simple_backward;
    }
    return nullptr;
  }
};

// The table of the instruction set in use (see isa.h).
template <class T>
const Kernels<T>& kernels();

}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CPU_KERNELS_H_
