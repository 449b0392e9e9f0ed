// The forward time loop: input projection, products, gates, masks.
#include <algorithm>
#include <cstring>

#include "core/cpu/rnn_forward.h"

namespace fused_rnn {

template <class T>
void Forward<T>::project(const Scratch& s, const Slice& slice, Index t,
                         Index chunk, int gate, Index j, Index count,
                         Index gx_column) {
  const Index gx_row = gate_count() * gate_columns_;
  // Rows first, first + stride, ... of gx from n rows of a.
  const auto rows = [&](Rows<const C> a, Index n, Index first, Index stride) {
    kernel_[gate].product(
        n, a, args_.shape.inputs, j, count, s.panel, {bias_[gate] + j, 0},
        {s.gx + first * gx_row + gate * gate_columns_ + gx_column,
         stride * gx_row});
  };
  if (gathers_) {
    rows({s.inputs, input_row_}, s.first_row[chunk], 0, 1);
    return;
  }
  if constexpr (std::is_same<T, C>::value) {
    const Sequence<const T>& x = args_.x;
    const C* first = x.at(t, slice.row);
    if (x.step == slice.rows * x.row) {
      rows({first, x.row}, chunk * slice.rows, 0, 1);
    } else if (slice.rows < kernels_.block_rows) {
      // Few rows of a step, but many steps of a row.
      for (Index r = 0; r < slice.rows; ++r)
        rows({first + r * x.row, x.step}, chunk, r, slice.rows);
    } else {
      for (Index c = 0; c < chunk; ++c)
        rows({first + c * x.step, x.row}, slice.rows, c * slice.rows, 1);
    }
  }
}

template <class T>
void Forward<T>::project_chunk(const Scratch& s, const Slice& slice, Index t) {
  const Index chunk = std::min(chunk_, steps() - t);
  s.first_row[0] = 0;
  for (Index c = 0; c < chunk; ++c) {
    const Index active = order_.active(slice, t + c);
    s.first_row[c + 1] = s.first_row[c] + active;
    if (gathers_)
      kernels_.read_rows(
          {args_.x.data + (t + c) * args_.x.step, args_.x.row},
          order_.block(slice, active), args_.shape.inputs,
          {s.inputs + s.first_row[c] * input_row_, input_row_});
  }
  // One step projects each panel just before its recurrent product.
  if (one_step()) return;
  for (int g = 0; g < gate_count(); ++g)
    for_each_panel(slice.unit, slice.units, kernel_columns_,
                   [&](Index j, Index n) {
                     project(s, slice, t, chunk, g, j, n, j - slice.unit);
                   });
}

// The products that a stage of step t needs for units [j, j + count).
template <class T>
void Forward<T>::products(const Scratch& s, const Slice& slice, Index t,
                          int stage, Index active, Index j, Index count) {
  const Index gx_row = gate_count() * gate_columns_;
  C* gx = s.gx + s.first_row[t % chunk_] * gx_row + gx_column(slice, j);
  for (int g = first_gate(stage); g < end_gate(stage); ++g) {
    if (one_step()) project(s, slice, t, 1, g, j, count, 0);
    Rows<C> sum{gx + g * gate_columns_, gx_row};
    Rows<const C> init{sum.data, sum.row};
    if (after() && g == kCandidate) {
      init = {recurrent_bias_ + j, 0};
      sum = {s.gh_c + gx_column(slice, j), gate_columns_};
    }
    recurrent_[g].product(active, at(operand(t, g), slice.row, 0), depth(t), j,
                          count, s.panel, init, sum);
  }
}

// The gates of a stage of step t for units [j, j + count).
template <class T>
void Forward<T>::gates(const Scratch& s, const Slice& slice, Index t, int stage,
                       Index active, const std::uint8_t* valid, Index j,
                       Index count) {
  const Index gx_row = gate_count() * gate_columns_;
  const Index column = gx_column(slice, j);
  const C* gx = s.gx + s.first_row[t % chunk_] * gx_row + column;
  ForwardTile<T> tile;
  tile.rows = order_.block(slice, active, valid);
  tile.units = count;
  tile.options = args_.options;
  for (int g = 0; g < gate_count(); ++g) {
    tile.gate[g] = {gx + g * gate_columns_, gx_row};
    if (peephole_[g]) tile.peephole[g] = peephole_[g] + j;
  }
  tile.gh_c = {s.gh_c + column, gate_columns_};
  tile.h_prev = at(state(t), slice.row, j);
  tile.h_next = at(Rows<C>{h_[(t + 1) & 1], row_}, slice.row, j);
  if (args_.outputs)
    tile.output = {args_.outputs.at(t, 0) + j, args_.outputs.row};
  for (int r = 0; r < kMaxReserve; ++r)
    if (args_.reserve[r])
      tile.reserve[r] = {args_.reserve[r].at(t, 0) + j, args_.reserve[r].row};
  if (reset_h_) tile.reset_h = at(Rows<C>{reset_h_, row_}, slice.row, j);
  if (cell_state_)
    tile.cell_state = at(Rows<C>{cell_state_, row_}, slice.row, j);
  kernels_.forward_gates(args_.options, stage)(tile);
  if (dropout() && stage + 1 < stages())
    kernels_.scale_rows({tile.reset_h.data, row_},
                        at(args_.recurrent_dropout[kCandidate], 0, j),
                        tile.rows, count, tile.reset_h);
}

template <class T>
void Forward<T>::step(const Scratch& s, const Slice& slice, Index t,
                      int stage) {
  const Index active = order_.active(slice, t);
  const bool holes = order_.holes(slice, t, active, s.valid);
  const std::uint8_t* valid = holes ? s.valid : nullptr;
  for_each_panel(slice.unit, slice.units, group_columns_,
                 [&](Index j, Index count) {
                   for_each_panel(j, count, split_.panel_columns,
                                  [&](Index i, Index n) {
                                    products(s, slice, t, stage, active, i, n);
                                  });
                   gates(s, slice, t, stage, active, valid, j, count);
                 });
  if (stage + 1 < stages()) return;
  if (order_.masked()) carry_masked(slice, t, active, valid);
  if (dropout()) drop(slice, t + 1, active);
}

// Rows masked at step t, of this slice's units.
template <class T>
void Forward<T>::carry_masked(const Slice& slice, Index t, Index active,
                              const std::uint8_t* valid) {
  const auto count = static_cast<std::size_t>(slice.units);
  for (Index i = valid ? 0 : active; i < slice.rows; ++i) {
    if (i < active && valid[i]) continue;
    const Index b = order_.batch(slice.row + i);
    if (args_.outputs) {
      T* output = args_.outputs.at(t, b) + slice.unit;
      if (t == 0 || args_.options.zero_output_for_mask)
        std::memset(static_cast<void*>(output), 0, count * sizeof(T));
      else
        std::memcpy(static_cast<void*>(output),
                    args_.outputs.at(t - 1, b) + slice.unit, count * sizeof(T));
    }
    for (const Sequence<T>& reserve : args_.reserve)
      if (reserve)
        std::memset(static_cast<void*>(reserve.at(t, b) + slice.unit), 0,
                    count * sizeof(T));
    if (i < active)
      std::memcpy(h_[(t + 1) & 1] + (slice.row + i) * row_ + slice.unit,
                  at(state(t), slice.row + i, slice.unit).data,
                  count * sizeof(C));
  }
}

// h∘m_g of the state before step t, for each gate whose product reads it.
template <class T>
void Forward<T>::drop(const Slice& slice, Index t, Index active) {
  if (t >= steps()) return;
  for (int g = 0; g < end_gate(0); ++g) {
    if (shares_dropout(g)) continue;
    kernels_.scale_rows(
        at(state(t), slice.row, slice.unit),
        at(args_.recurrent_dropout[g], 0, slice.unit),
        order_.block(slice, active), slice.units,
        at(Rows<C>{dropped_[t & 1][g], row_}, slice.row, slice.unit));
  }
}

// Each row's state is what its last valid step left.
template <class T>
void Forward<T>::finish(const Slice& slice) {
  if (cell_state_ && args_.cell_state)
    kernels_.write_rows(at(Rows<const C>{cell_state_, row_}, slice.row,
                           slice.unit),
                        order_.block(slice, slice.rows), slice.units,
                        at(args_.cell_state, 0, slice.unit));
  if (!args_.state) return;
  for (Index i = 0; i < slice.rows; ++i) {
    const Index position = slice.row + i;
    const Slice row{position, 1, slice.unit, slice.units};
    const Rows<const C> last = state(order_.length(position));
    kernels_.write_rows(at(last, position, slice.unit), order_.block(row, 1),
                        slice.units, at(args_.state, 0, slice.unit));
  }
}

template <class T>
void Forward<T>::run_rows(Index part) {
  const Scratch s = scratch_.of(*this, part);
  const Slice slice = split_.slice(part);
  for (Index t = 0; t < steps(); ++t) {
    for_each_block(slice, [&](const Slice& block) {
      if (t % chunk_ == 0) project_chunk(s, block, t);
      for (int stage = 0; stage < stages(); ++stage) step(s, block, t, stage);
    });
  }
  finish(slice);
}

template <class T>
void Forward<T>::run_columns(Index phase, Index part) {
  const Scratch s = scratch_.of(*this, part);
  const Slice slice = split_.slice(part);
  if (phase == stages() * steps()) {
    finish(slice);
    return;
  }
  const Index t = phase / stages();
  if (phase == 0) pack_part(part);
  const Index stage = phase % stages();
  for_each_block(slice, [&](const Slice& block) {
    // A block's inputs serve both stages, where no other block comes between.
    if (t % chunk_ == 0 && (stage == 0 || block.rows < slice.rows))
      project_chunk(s, block, t);
    step(s, block, t, static_cast<int>(stage));
  });
}

template <class T>
void Forward<T>::run() {
  if (args_.shape.batch == 0 || units() == 0) return;
  prepare();
  if (split_.by_rows) {
    run_phases(threads_, 2, split_.parts, [&](Index phase, Index part) {
      phase == 0 ? pack_part(part) : run_rows(part);
    });
  } else {
    run_phases(threads_, stages() * steps() + 1, split_.parts,
               [&](Index phase, Index part) { run_columns(phase, part); },
               patience(split_, gate_count(), steps(), sizeof(C)));
  }
}

FUSED_RNN_DEFINE_CALL(rnn_forward, RnnForward, Forward)

template <class T>
std::size_t packed_bytes(const RnnForward<T>& args, const Threads& threads) {
  return Forward<T>(args, threads).packed_bytes();
}

template <class T>
void rnn_pack(const RnnForward<T>& args, const Threads& threads,
              void* packed) {
  Forward<T>(args, threads).pack(packed);
}

#define FUSED_RNN_INSTANTIATE(T)                                           \
  template class Forward<T>;                                               \
  template std::size_t packed_bytes(const RnnForward<T>&, const Threads&); \
  template void rnn_pack(const RnnForward<T>&, const Threads&, void*);
FUSED_RNN_INSTANTIATE(float)
FUSED_RNN_INSTANTIATE(double)
FUSED_RNN_INSTANTIATE(Half)
FUSED_RNN_INSTANTIATE(BFloat16)
#undef FUSED_RNN_INSTANTIATE

}  // namespace fused_rnn
