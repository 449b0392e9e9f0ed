// The forward time loop: split of the work, input projection, products, masks.
#include <algorithm>
#include <cstring>

#include "core/cpu/kernels.h"
#include "core/cpu/panels.h"
#include "core/cpu/row_order.h"
#include "core/cpu/split.h"
#include "core/cpu/workspace.h"
#include "core/gru.h"
#include "core/parallel.h"

namespace fused_rnn {
namespace {

// The input projection of a chunk of steps should still lie in the L2 cache
// (1 MB and more), beside the weights, when the steps read it.
constexpr Index kChunkBytes = 256 * 1024;
// Fewer rows do not pay for packing a panel that serves one step only.
constexpr Index kRowsWorthStreaming = 16;
// Rows of the caller's arrays are written in runs of about so many units: long
// enough to fill pages' lines in order, short enough for the products to stay
// in cache until the gates read them.
constexpr Index kGroupColumns = 256;
// Packing all weights costs about as much as two steps of a single row.
constexpr Index kStepsWorthPacking = 4;

template <class T>
class Forward {
 public:
  using C = Compute<T>;

  Forward(const GruForward<T>& args, const Threads& threads)
      : args_(args), threads_(threads), kernels_(kernels<T>()) {}

  std::size_t workspace_bytes() {
    plan(args_.packed);
    Workspace workspace(nullptr);
    layout(workspace);
    return workspace.bytes();
  }
  std::size_t packed_bytes() {
    plan(true);
    Workspace packed(nullptr);
    layout_weights(packed);
    return packed.bytes();
  }
  void pack(void* base);
  void run(void* base);

 private:
  // What a part has to itself.
  struct Scratch {
    C* gx = nullptr;             // [rows of a chunk][3][gate_columns_]
    Index* first_row = nullptr;  // [chunk + 1]: where a step's rows are in gx
    C* gh_c = nullptr;           // [rows][gate_columns_]
    C* inputs = nullptr;         // [rows of a chunk][input_row_], gathered
    C* panel = nullptr;          // of a weight matrix, streamed
    std::uint8_t* valid = nullptr;
  };

  Index steps() const { return args_.shape.steps; }
  Index units() const { return args_.shape.units; }
  bool after() const { return args_.options.reset_after; }
  bool dropout() const { return static_cast<bool>(args_.recurrent_dropout[0]); }
  bool one_step() const { return steps() == 1; }
  Index max_rows() const {
    return split_.by_rows ? ceil_div(args_.shape.batch, split_.parts)
                          : args_.shape.batch;
  }

  void plan(bool packed);
  void layout_weights(Workspace&);
  void layout(Workspace&);
  void take_scratch(Workspace&, Scratch&) const;
  Scratch scratch(Index part) const;
  void prepare_biases();
  void prepare();
  void pack_share(Index part);
  void run_rows(Index part);
  void run_columns(Index phase, Index part);

  void project_chunk(const Scratch&, const Slice&, Index t);
  void project(const Scratch&, const Slice&, Index t, Index chunk, int gate,
               Index j, Index count, Index gx_column);
  void products(const Scratch&, const Slice&, Index t, int stage, Index active,
                Index j, Index count);
  void gates(const Scratch&, const Slice&, Index t, int stage, Index active,
             const std::uint8_t* valid, Index j, Index count);
  void step(const Scratch&, const Slice&, Index t, int stage);
  void carry_masked(const Slice&, Index t, Index active,
                    const std::uint8_t* valid);
  void drop(const Slice&, Index t, Index active);
  void finish(const Slice&);

  // The state before step t; rows at their positions.
  Rows<const C> state(Index t) const {
    if constexpr (std::is_same<T, C>::value)
      if (t == 0 && reads_h0_in_place_) return args_.h0;
    return {h_[t & 1], row_};
  }
  template <class U>
  static Rows<U> at(Rows<U> rows, Index first, Index unit) {
    return {rows.data + first * rows.row + unit, rows.row};
  }
  // What the recurrent product of a gate reads at step t.
  Rows<const C> operand(Index t, int gate) const {
    if (gate == kCandidate && !after()) return {reset_h_, row_};
    if (dropout()) return {dropped_[t & 1][gate], row_};
    return state(t);
  }
  // Where unit j's pre-activations are in a row of gx and gh_c.
  Index gx_column(const Slice& slice, Index j) const {
    return one_step() ? 0 : j - slice.unit;
  }
  // No state, no product.
  Index depth(Index t) const { return t == 0 && !args_.h0 ? 0 : units(); }

  const GruForward<T>& args_;
  const Threads& threads_;
  const Kernels<T>& kernels_;
  Split split_;
  Index chunk_ = 1;            // steps projected at once
  Index gate_columns_ = 0;     // of a gate in gx
  Index kernel_columns_ = 0;   // of a panel of the input kernel
  Index group_columns_ = 0;    // whose products precede their gates
  Index row_ = 0;              // of the states
  Index input_row_ = 0;        // of gathered inputs
  bool gathers_ = false;       // rows of x into scratch
  bool reads_h0_in_place_ = false;

  RowOrder order_;
  Panels<T> kernel_[kGates];
  Panels<T> recurrent_[kGates];
  C* bias_[kGates] = {};         // recurrent bias included where it just adds
  C* recurrent_bias_ = nullptr;  // of the candidate, reset after
  C* h_[2] = {};
  C* dropped_[2][kGates] = {};
  C* reset_h_ = nullptr;
  char* scratch_base_ = nullptr;
  Index scratch_bytes_ = 0;
};

template <class T>
void Forward<T>::plan(bool packed) {
  const GruShape& shape = args_.shape;
  const Index inputs = shape.inputs;
  split_ = choose_split({threads_.count, steps(), shape.batch, units(),
                         kGates * units() * (inputs + units()), kernels_.width,
                         kernels_.block_rows, kernels_.max_vectors});
  row_ = scratch_row<C>(units(), kernels_.width);
  input_row_ = scratch_row<C>(inputs, kernels_.width);

  const Index rows = max_rows();
  gathers_ = !std::is_same<T, C>::value || args_.mask.data;
  if (one_step()) {
    // Projects panel by panel: nothing of size [B, 3H] is ever stored.
    gate_columns_ = split_.panel_columns;
    kernel_columns_ = split_.panel_columns;
    group_columns_ = split_.panel_columns;
  } else {
    Index own = 0;
    for (Index p = 0; p < split_.parts; ++p)
      own = std::max(own, split_.slice(p).units);
    gate_columns_ = round_up(own, kernels_.width);
    const Index step_bytes = std::max<Index>(
        1, rows * kGates * gate_columns_ * static_cast<Index>(sizeof(C)));
    chunk_ = std::clamp<Index>(kChunkBytes / step_bytes, 1,
                               std::max<Index>(1, steps()));
    kernel_columns_ =
        panel_columns(own, chunk_ * rows, kernels_.width, kernels_.block_rows,
                      kernels_.max_vectors);
    group_columns_ = split_.panel_columns * std::max<Index>(1, kGroupColumns / split_.panel_columns);
    const bool one_matrix = rows == 1 || args_.x.step == rows * args_.x.row;
    if (!one_matrix && rows < kernels_.block_rows) gathers_ = true;
  }
  reads_h0_in_place_ =
      std::is_same<T, C>::value && args_.h0 && !args_.mask.data;

  Packing packing = Packing::kPacked;
  if (packed)
    packing = Packing::kPacked;
  else if (one_step())
    packing = rows >= kRowsWorthStreaming ? Packing::kStreamed
                                          : Packing::kInPlace;
  else if (steps() < kStepsWorthPacking && rows <= 2)
    packing = Packing::kInPlace;
  const GruWeights<T>& w = args_.weights;
  for (int g = 0; g < kGates; ++g) {
    kernel_[g] =
        Panels<T>(w.kernel[g], false, inputs, units(), packing, kernels_);
    recurrent_[g] =
        Panels<T>(w.recurrent[g], false, units(), units(), packing, kernels_);
  }
}

template <class T>
void Forward<T>::layout_weights(Workspace& workspace) {
  for (int g = 0; g < kGates; ++g) {
    kernel_[g].take(workspace);
    recurrent_[g].take(workspace);
    bias_[g] = workspace.take<C>(row_);
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
  if (!after()) reset_h_ = workspace.take<C>(batch * row_);
  if (dropout())
    for (auto& gates : dropped_)
      for (C*& rows : gates) rows = workspace.take<C>(batch * row_);

  Scratch unused;
  Workspace own(nullptr);
  take_scratch(own, unused);
  scratch_bytes_ = static_cast<Index>(own.bytes());
  scratch_base_ = workspace.take<char>(split_.parts * scratch_bytes_);
}

template <class T>
void Forward<T>::take_scratch(Workspace& own, Scratch& s) const {
  const Index rows = max_rows();
  s.gx = own.take<C>(chunk_ * rows * kGates * gate_columns_);
  s.first_row = own.take<Index>(chunk_ + 1);
  s.gh_c = own.take<C>(after() ? rows * gate_columns_ : 0);
  s.inputs = own.take<C>(gathers_ ? chunk_ * rows * input_row_ : 0);
  s.panel = own.take<C>(
      std::max(kernel_[0].buffer_size(kernel_columns_),
               recurrent_[0].buffer_size(split_.panel_columns)));
  s.valid = own.take<std::uint8_t>(rows);
}

template <class T>
typename Forward<T>::Scratch Forward<T>::scratch(Index part) const {
  Scratch s;
  Workspace own(scratch_base_ + part * scratch_bytes_);
  take_scratch(own, s);
  return s;
}

template <class T>
void Forward<T>::prepare_biases() {
  const GruWeights<T>& w = args_.weights;
  const BlockRows one{1};
  for (int g = 0; g < kGates; ++g) {
    kernels_.read_rows({w.bias[g], 0}, one, units(), {bias_[g], row_});
    if (after() && w.recurrent_bias[g] && g != kCandidate)
      kernels_.add_rows({w.recurrent_bias[g], 0}, one, units(),
                        {bias_[g], row_});
  }
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
  if (dropout()) drop(all, 0, all.rows);
}

// This part's share of all panels, or the panels of its own slice.
template <class T>
void Forward<T>::pack_share(Index part) {
  if (args_.packed) return;
  const auto share = [&](Panels<T>& matrix, Index panel_columns) {
    const Slice slice = split_.share_of_panels(part, panel_columns);
    for_each_panel(slice.unit, slice.units, panel_columns,
                   [&](Index j, Index n) { matrix.pack(j, n); });
  };
  for (int g = 0; g < kGates; ++g) {
    share(kernel_[g], kernel_columns_);
    share(recurrent_[g], split_.panel_columns);
  }
}

template <class T>
void Forward<T>::project(const Scratch& s, const Slice& slice, Index t,
                         Index chunk, int gate, Index j, Index count,
                         Index gx_column) {
  const Index gx_row = kGates * gate_columns_;
  const auto rows = [&](Rows<const C> a, Index first, Index n) {
    kernel_[gate].product(
        n, a, args_.shape.inputs, j, count, s.panel, {bias_[gate] + j, 0},
        {s.gx + first * gx_row + gate * gate_columns_ + gx_column, gx_row});
  };
  if (gathers_) {
    rows({s.inputs, input_row_}, 0, s.first_row[chunk]);
    return;
  }
  if constexpr (std::is_same<T, C>::value) {
    const Sequence<const T>& x = args_.x;
    const C* first = x.at(t, slice.row);
    if (slice.rows == 1) {
      rows({first, x.step}, 0, chunk);
    } else if (x.step == slice.rows * x.row) {
      rows({first, x.row}, 0, chunk * slice.rows);
    } else {
      for (Index c = 0; c < chunk; ++c)
        rows({first + c * x.step, x.row}, c * slice.rows, slice.rows);
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
  for (int g = 0; g < kGates; ++g)
    for_each_panel(slice.unit, slice.units, kernel_columns_,
                   [&](Index j, Index n) {
                     project(s, slice, t, chunk, g, j, n, j - slice.unit);
                   });
}

// The products that a stage of step t needs for units [j, j + count).
template <class T>
void Forward<T>::products(const Scratch& s, const Slice& slice, Index t,
                          int stage, Index active, Index j, Index count) {
  const Index gx_row = kGates * gate_columns_;
  C* gx = s.gx + s.first_row[t % chunk_] * gx_row + gx_column(slice, j);
  const int first_gate = stage == 0 ? kUpdate : kCandidate;
  const int end_gate = stage == 0 && !after() ? kCandidate : kGates;
  for (int g = first_gate; g < end_gate; ++g) {
    if (one_step()) project(s, slice, t, 1, g, j, count, 0);
    Rows<C> sum{gx + g * gate_columns_, gx_row};
    Rows<const C> init{sum.data, sum.row};
    if (g == kCandidate && after()) {
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
  const Index gx_row = kGates * gate_columns_;
  const Index column = gx_column(slice, j);
  const C* gx = s.gx + s.first_row[t % chunk_] * gx_row + column;
  ForwardTile<T> tile;
  tile.rows = order_.block(slice, active, valid);
  tile.units = count;
  tile.options = args_.options;
  for (int g = 0; g < kGates; ++g)
    tile.gate[g] = {gx + g * gate_columns_, gx_row};
  tile.gh_c = {s.gh_c + column, gate_columns_};
  tile.h_prev = at(state(t), slice.row, j);
  tile.h_next = at(Rows<C>{h_[(t + 1) & 1], row_}, slice.row, j);
  if (args_.outputs)
    tile.output = {args_.outputs.at(t, 0) + j, args_.outputs.row};
  for (int r = 0; r < kReserve; ++r)
    if (args_.reserve[r])
      tile.reserve[r] = {args_.reserve[r].at(t, 0) + j, args_.reserve[r].row};
  if (after()) {
    kernels_.forward_after(tile);
  } else if (stage == 0) {
    tile.reset_h = at(Rows<C>{reset_h_, row_}, slice.row, j);
    kernels_.forward_before_gates(tile);
    if (dropout())
      kernels_.scale_rows({tile.reset_h.data, row_},
                          at(args_.recurrent_dropout[kCandidate], 0, j),
                          tile.rows, count, tile.reset_h);
  } else {
    kernels_.forward_before_candidate(tile);
  }
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
  if (stage == 0 && !after()) return;
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
  for (int g = 0; g < (after() ? kGates : kCandidate); ++g)
    kernels_.scale_rows(
        at(state(t), slice.row, slice.unit),
        at(args_.recurrent_dropout[g], 0, slice.unit),
        order_.block(slice, active), slice.units,
        at(Rows<C>{dropped_[t & 1][g], row_}, slice.row, slice.unit));
}

// Each row's state is what its last valid step left.
template <class T>
void Forward<T>::finish(const Slice& slice) {
  if (!args_.state) return;
  for (Index i = 0; i < slice.rows; ++i) {
    const Index position = slice.row + i;
    const Slice row{position, 1, slice.unit, slice.units};
    kernels_.write_rows(at(state(order_.length(position)), position, slice.unit),
                        order_.block(row, 1), slice.units,
                        at(args_.state, 0, slice.unit));
  }
}

template <class T>
void Forward<T>::run_rows(Index part) {
  const Scratch s = scratch(part);
  const Slice slice = split_.slice(part);
  for (Index t = 0; t < steps(); ++t) {
    if (t % chunk_ == 0) project_chunk(s, slice, t);
    step(s, slice, t, 0);
    if (!after()) step(s, slice, t, 1);
  }
  finish(slice);
}

template <class T>
void Forward<T>::run_columns(Index phase, Index part) {
  const Scratch s = scratch(part);
  const Slice slice = split_.slice(part);
  const Index stages = after() ? 1 : 2;
  if (phase == stages * steps()) {
    finish(slice);
    return;
  }
  const Index t = phase / stages;
  if (phase == 0) pack_share(part);
  if (phase % stages == 0 && t % chunk_ == 0) project_chunk(s, slice, t);
  step(s, slice, t, static_cast<int>(phase % stages));
}

template <class T>
void Forward<T>::pack(void* base) {
  plan(true);
  Workspace packed(base);
  layout_weights(packed);
  prepare_biases();
  for (Index part = 0; part < split_.parts; ++part) pack_share(part);
}

template <class T>
void Forward<T>::run(void* base) {
  if (args_.shape.batch == 0 || units() == 0) return;
  plan(args_.packed);
  Workspace workspace(base);
  layout(workspace);
  prepare();
  if (split_.by_rows) {
    run_phases(threads_, 2, split_.parts, [&](Index phase, Index part) {
      phase == 0 ? pack_share(part) : run_rows(part);
    });
  } else {
    run_phases(threads_, (after() ? 1 : 2) * steps() + 1, split_.parts,
               [&](Index phase, Index part) { run_columns(phase, part); });
  }
}

}  // namespace

template <class T>
std::size_t workspace_bytes(const GruForward<T>& args, const Threads& threads) {
  return Forward<T>(args, threads).workspace_bytes();
}

template <class T>
void gru_forward(const GruForward<T>& args, const Threads& threads,
                 void* workspace) {
  Forward<T>(args, threads).run(workspace);
}

template <class T>
std::size_t packed_bytes(const GruForward<T>& args, const Threads& threads) {
  return Forward<T>(args, threads).packed_bytes();
}

template <class T>
void gru_pack(const GruForward<T>& args, const Threads& threads,
              void* packed) {
  Forward<T>(args, threads).pack(packed);
}

#define FUSED_RNN_INSTANTIATE(T)                                          \
  template std::size_t workspace_bytes(const GruForward<T>&,              \
                                       const Threads&);                   \
  template void gru_forward(const GruForward<T>&, const Threads&, void*); \
  template std::size_t packed_bytes(const GruForward<T>&, const Threads&); \
  template void gru_pack(const GruForward<T>&, const Threads&, void*);
FUSED_RNN_INSTANTIATE(float)
FUSED_RNN_INSTANTIATE(double)
FUSED_RNN_INSTANTIATE(Half)
FUSED_RNN_INSTANTIATE(BFloat16)
#undef FUSED_RNN_INSTANTIATE

}  // namespace fused_rnn
