// The forward pass before its first step: split, packing, scratch memory.
#include <algorithm>

#include "core/cpu/rnn_forward.h"

namespace fused_rnn {
namespace {

// The input projection of a chunk of steps should still lie in the L2 cache
// (1 MB and more), beside the weights, when the steps read it.
constexpr Index kChunkBytes = 256 * 1024;
// Fewer rows do not pay for packing a panel that serves one step only.
constexpr Index kRowsWorthStreaming = 16;
// A step of so many rows hides that every part packs all weights.
constexpr Index kRowsWorthAllWeights = 64;
// Rows of the caller's arrays are written in runs of about so many units: long
// enough to fill pages' lines in order, short enough for the products to stay
// in cache until the gates read them.
constexpr Index kGroupColumns = 256;
// Packing all weights costs about as much as two steps of a single row.
constexpr Index kStepsWorthPacking = 4;

}  // namespace

template <class T>
void Forward<T>::plan(bool keep_packed) {
  const RnnShape& shape = args_.shape;
  const Index inputs = shape.inputs;
  split_ = choose_split({threads_.count, steps(), shape.batch, units(),
                         gate_count() * units() * (inputs + units()), kernels_.width,
                         kernels_.block_rows, kernels_.max_vectors,
                         kRowsWorthAllWeights});
  row_ = scratch_row<C>(units(), kernels_.width);
  input_row_ = scratch_row<C>(inputs, kernels_.width);

  const Index rows = split_.most_rows();
  const Index own = split_.most_units();
  gathers_ = !std::is_same<T, C>::value || args_.mask.data;
  reads_h0_in_place_ =
      std::is_same<T, C>::value && args_.h0 && !args_.mask.data;

  Packing recurrent = Packing::kPacked;
  if (!keep_packed) recurrent = choose_packing(rows, own);
  if (recurrent == Packing::kRowByRow)
    split_.panel_columns = round_up(own, kernels_.width);
  Packing kernel = recurrent;
  if (one_step()) {
    // Projects panel by panel: nothing of size [B, 3H] is ever stored.
    gate_columns_ = split_.panel_columns;
    kernel_columns_ = split_.panel_columns;
    group_columns_ = split_.panel_columns;
  } else {
    gate_columns_ = round_up(own, kernels_.width);
    const Index step_bytes = std::max<Index>(
        1, rows * gate_count() * gate_columns_ * static_cast<Index>(sizeof(C)));
    // Two chunks in one spare the weights a second way into the cache.
    chunk_ = steps() * step_bytes <= 2 * kChunkBytes
                 ? std::max<Index>(1, steps())
                 : std::max<Index>(1, kChunkBytes / step_bytes);
    if (steps() >= kStepsWorthPacking) {
      // Each part goes through its panels once a chunk.
      const bool once = chunk_ >= steps() && split_.whole_panels();
      kernel = once && !keep_packed ? Packing::kStreamed : Packing::kPacked;
    }
    kernel_columns_ =
        panel_columns(own, chunk_ * rows, kernels_.width, kernels_.block_rows,
                      kernels_.max_vectors);
    group_columns_ = std::max<Index>(1, kGroupColumns / split_.panel_columns) *
                     split_.panel_columns;
  }
  const RnnWeights<T>& w = args_.weights;
  for (int g = 0; g < gate_count(); ++g) {
    kernel_[g] =
        Panels<T>(w.kernel[g], false, inputs, units(), kernel, kernels_);
    recurrent_[g] =
        Panels<T>(w.recurrent[g], false, units(), units(), recurrent, kernels_);
  }
}

template <class T>
Packing Forward<T>::choose_packing(Index rows, Index own) const {
  const Index bytes =
      gate_count() * units() * own * static_cast<Index>(sizeof(T));
  // Of twice the cache's size half is still found there, step after step.
  if (rows == 1 && bytes > (one_step() ? 1 : 2) * kCacheBytes)
    return Packing::kRowByRow;
  if (one_step())
    return rows >= kRowsWorthStreaming ? Packing::kStreamed
                                       : Packing::kInPlace;
  return steps() < kStepsWorthPacking && rows <= 2 ? Packing::kInPlace
                                                   : Packing::kPacked;
}

template <class T>
void Forward<T>::layout_weights(Workspace& workspace) {
  for (int g = 0; g < gate_count(); ++g) {
    kernel_[g].take(workspace);
    recurrent_[g].take(workspace);
    bias_[g] = workspace.take<C>(row_);
    if (args_.weights.peephole[g]) peephole_[g] = workspace.take<C>(row_);
  }
  if (after()) recurrent_bias_ = workspace.take<C>(row_);
}

template <class T>
void Forward<T>::layout(Workspace& workspace) {
  const Index batch = args_.shape.batch;
  if (args_.packed) {
    Workspace packed(const_cast<void*>(args_.packed));  // only read from
    layout_weights(packed);
  } else {
    layout_weights(workspace);
  }
  order_.take(workspace, args_.mask, args_.shape, split_);
  if (!reads_h0_in_place_ || steps() > 1)
    h_[0] = workspace.take<C>(batch * row_);
  h_[1] = workspace.take<C>(batch * row_);
  if (stages() == 2) reset_h_ = workspace.take<C>(batch * row_);
  if (has_cell_state(args_.options))
    cell_state_ = workspace.take<C>(batch * row_);
  if (dropout())
    for (auto& gates : dropped_)
      for (int g = 0; g < end_gate(0); ++g)
        gates[g] = shares_dropout(g) ? gates[0]
                                     : workspace.take<C>(batch * row_);

  scratch_.take(workspace, *this, split_.parts);
}

template <class T>
void Forward<T>::take_scratch(Workspace& own, Scratch& s) const {
  const Index rows = block_rows(split_.most_rows());
  s.gx = own.take<C>(chunk_ * rows * gate_count() * gate_columns_);
  s.first_row = own.take<Index>(chunk_ + 1);
  s.gh_c = own.take<C>(after() ? rows * gate_columns_ : 0);
  s.inputs = own.take<C>(gathers_ ? chunk_ * rows * input_row_ : 0);
  s.panel = own.take<C>(
      std::max(kernel_[0].buffer_size(kernel_columns_),
               recurrent_[0].buffer_size(split_.panel_columns)));
  s.valid = own.take<std::uint8_t>(rows);
}

template <class T>
void Forward<T>::prepare_biases() {
  const RnnWeights<T>& w = args_.weights;
  const BlockRows one{1};
  for (int g = 0; g < gate_count(); ++g) {
    kernels_.read_rows({w.bias[g], 0}, one, units(), {bias_[g], row_});
    if (after() && w.recurrent_bias[g] && g != kCandidate)
      kernels_.add_rows({w.recurrent_bias[g], 0}, one, units(),
                        {bias_[g], row_});
    if (peephole_[g])
      kernels_.read_rows({w.peephole[g], 0}, one, units(),
                         {peephole_[g], row_});
  }
  if (has_cell_state(args_.options))
    for (Index j = 0; j < units(); ++j)
      bias_[kForget][j] += static_cast<C>(args_.options.forget_bias);
  if (after())
    kernels_.read_rows({w.recurrent_bias[kCandidate], 0}, one, units(),
                       {recurrent_bias_, row_});
}

// What all parts read: biases, the order of rows, the first state.
template <class T>
void Forward<T>::prepare() {
  if (!args_.packed) prepare_biases();
  order_.build();
  const Slice all{0, args_.shape.batch, 0, units()};
  if (!reads_h0_in_place_)
    kernels_.read_rows(args_.h0, order_.block(all, all.rows), units(),
                       {h_[0], row_});
  if (cell_state_)
    kernels_.read_rows(args_.c0, order_.block(all, all.rows), units(),
                       {cell_state_, row_});
  if (dropout()) drop(all, 0, all.rows);
}

template <class T>
void Forward<T>::pack_part(Index part) {
  if (args_.packed) return;
  pack_share(kernel_, gate_count(), split_, part, kernel_columns_);
  pack_share(recurrent_, gate_count(), split_, part, split_.panel_columns);
}

template <class T>
std::size_t Forward<T>::packed_bytes() {
  plan(true);
  Workspace packed(nullptr);
  layout_weights(packed);
  return packed.bytes();
}

template <class T>
void Forward<T>::pack(void* base) {
  plan(true);
  Workspace packed(base);
  layout_weights(packed);
  prepare_biases();
  for (Index part = 0; part < split_.parts; ++part) pack_part(part);
}

template class Forward<float>;
template class Forward<double>;
template class Forward<Half>;
template class Forward<BFloat16>;

}  // namespace fused_rnn
