// The reverse time loop: what arrives at each state, and what the gates get.
#include <algorithm>
#include <cstring>

#include "core/cpu/call.h"
#include "core/cpu/kernels.h"
#include "core/cpu/panels.h"
#include "core/cpu/row_order.h"
#include "core/cpu/split.h"
#include "core/cpu/workspace.h"
#include "core/rnn.h"
#include "core/parallel.h"

namespace fused_rnn {
namespace {

// To fetch the gate gradients of a row from another core costs about as much as
// packing the weights of so many units.
constexpr Index kUnitsOfARow = 16;

template <class T>
class Backward {
 public:
  using C = Compute<T>;

  Backward(const RnnBackward<T>& args, const Threads& threads)
      : args_(args), threads_(threads), kernels_(kernels<T>()) {}

  // What a part has to itself.
  struct Scratch {
    C* d = nullptr;        // [rows][row_]
    C* product = nullptr;  // [rows][panel columns], of one gate; with dropout
    C* panel = nullptr;    // a streamed panel
    const T** h_prev = nullptr;
    const T** c_prev = nullptr;
    std::uint8_t* valid = nullptr;
  };
  void plan();
  void layout(Workspace&);
  void take_scratch(Workspace&, Scratch&) const;
  void run();

 private:
  Index steps() const { return args_.shape.steps; }
  Index units() const { return args_.shape.units; }
  int gate_count() const { return fused_rnn::gate_count(args_.options); }
  int gradient_count() const { return gate_gradient_count(args_.options); }
  int stages() const { return two_stages(args_.options) ? 2 : 1; }
  // Gates whose products lead to the state itself; the others', to r∘h.
  int state_gates() const { return stages() == 2 ? kCandidate : gate_count(); }
  bool cell_state() const { return has_cell_state(args_.options); }
  bool dropout() const { return static_cast<bool>(args_.recurrent_dropout[0]); }
  bool has_operand(int g) const {
    return g < gradient_count() && recurrent_gate(g, args_.options) == g;
  }
  // Whether a state's gradient passes a step beside the products, where the
  // step is not masked: through z∘h.
  bool blends() const { return args_.options.cell == Cell::kGru; }

  void prepare();
  void pack_part(Index part) {
    pack_share(recurrent_, gate_count(), split_, part, split_.panel_columns);
  }
  void find_previous(const Scratch&, const Slice&, Index t, Index active) const;
  void products(const Scratch&, const Slice&, Index t, int first_gate,
                int end_gate, Index rows, Rows<const C> start);
  void arrive(const Scratch&, const Slice&, Index t);
  void step(const Scratch&, const Slice&, Index t, int stage);
  void pass_masked(const Scratch&, const Slice&, Index t, Index active,
                   const std::uint8_t* valid);
  void finish(const Scratch&, const Slice&);

  Rows<C> rows_of(C* rows, const Slice& slice, Index unit) const {
    return {rows + slice.row * row_ + unit, row_};
  }
  std::size_t padded_bytes(const Slice& slice) const {
    return static_cast<std::size_t>(round_up(slice.units, kernels_.width)) *
           sizeof(C);
  }
  void copy_rows(Rows<const C> from, const Slice& slice, Index first, Index end,
                 C* to) const {
    for (Index i = first; i < end; ++i)
      std::memcpy(to + i * row_, from.data + i * from.row, padded_bytes(slice));
  }
  static Rows<const T> step_of(const Sequence<const T>& s, Index t, Index j) {
    return s ? Rows<const T>{s.at(t, 0) + j, s.row} : Rows<const T>{};
  }

  const RnnBackward<T>& args_;
  const Threads& threads_;
  const Kernels<T>& kernels_;

  Split split_;
  Index row_ = 0;
  RowOrder order_;
  Panels<T> recurrent_[kMaxGates];  // transposed
  C* carry_ = nullptr;
  C* output_carry_ = nullptr;
  C* d_cell_state_ = nullptr;
  C* peephole_[kMaxGates] = {};    // null: none
  C* operand_[2][kMaxGates] = {};  // of the steps of either parity
  C* zeros_ = nullptr;  // [row_]
  PartScratch<Scratch> scratch_;
};

template <class T>
void Backward<T>::plan() {
  const Index rows_worth_all_weights =
      std::max<Index>(kernels_.block_rows, units() / kUnitsOfARow);
  split_ = choose_split({threads_.count, steps(), args_.shape.batch, units(),
                         gate_count() * units() * units(), kernels_.width,
                         kernels_.block_rows, kernels_.max_vectors,
                         rows_worth_all_weights});
  row_ = scratch_row<C>(units(), kernels_.width);
  const Packing packing =
      steps() == 1 ? Packing::kStreamed : Packing::kPacked;
  for (int g = 0; g < gate_count(); ++g)
    recurrent_[g] = Panels<T>(args_.weights.recurrent[g], true, units(),
                              units(), packing, kernels_);
}

template <class T>
void Backward<T>::layout(Workspace& workspace) {
  const Index batch = args_.shape.batch;
  order_.take(workspace, args_.mask, args_.shape, split_);
  for (int g = 0; g < gate_count(); ++g) {
    recurrent_[g].take(workspace);
    if (args_.weights.peephole[g]) peephole_[g] = workspace.take<C>(row_);
  }
  carry_ = workspace.take<C>(batch * row_);
  if (order_.masked() && args_.d_outputs && !args_.options.zero_output_for_mask)
    output_carry_ = workspace.take<C>(batch * row_);
  if (cell_state()) d_cell_state_ = workspace.take<C>(batch * row_);
  for (auto& gates : operand_)
    for (int g = 0; g < kMaxGates; ++g)
      if (has_operand(g)) gates[g] = workspace.take<C>(batch * row_);
  zeros_ = workspace.take<C>(row_);

  scratch_.take(workspace, *this, split_.parts);
}

template <class T>
void Backward<T>::take_scratch(Workspace& own, Scratch& s) const {
  const Index rows = split_.most_rows();
  s.d = own.take<C>(rows * row_);
  s.product = own.take<C>(dropout() ? rows * split_.panel_columns : 0);
  s.panel = own.take<C>(recurrent_[0].buffer_size(split_.panel_columns));
  s.h_prev = own.take<const T*>(rows);
  s.c_prev = own.take<const T*>(cell_state() ? rows : 0);
  s.valid = own.take<std::uint8_t>(rows);
}

template <class T>
void Backward<T>::prepare() {
  order_.build();
  const Index batch = args_.shape.batch;
  const Slice all{0, batch, 0, units()};
  kernels_.read_rows(args_.d_state, order_.block(all, batch), units(),
                     {carry_, row_});
  if (cell_state())
    kernels_.read_rows(args_.d_cell_state, order_.block(all, batch), units(),
                       {d_cell_state_, row_});
  for (int g = 0; g < kMaxGates; ++g)
    if (peephole_[g])
      kernels_.read_rows({args_.weights.peephole[g], 0}, BlockRows{1}, units(),
                         {peephole_[g], row_});
  std::fill(zeros_, zeros_ + row_, C(0));
  if (output_carry_)
    std::fill(output_carry_, output_carry_ + batch * row_, C(0));
}

template <class T>
void Backward<T>::find_previous(const Scratch& s, const Slice& slice, Index t,
                                Index active) const {
  for (Index i = 0; i < active; ++i) {
    const Index b = order_.batch(slice.row + i);
    const Index previous = order_.previous_valid(t, slice.row + i);
    const auto of = [&](const Sequence<const T>& kept, Rows<const T> first) {
      if (previous >= 0) return kept.at(previous, b);
      return first ? first.data + b * first.row : nullptr;
    };
    s.h_prev[i] = of(args_.outputs, args_.h0);
    if (cell_state()) s.c_prev[i] = of(args_.reserve[kCellState], args_.c0);
  }
}

// d = start + Σ_gates d_gate(t)·R_gᵀ for the first rows of the slice.
template <class T>
void Backward<T>::products(const Scratch& s, const Slice& slice, Index t,
                           int first_gate, int end_gate, Index rows,
                           Rows<const C> start) {
  if (dropout()) copy_rows(start, slice, 0, rows, s.d);
  const auto product = [&](int g, Index j, Index n) {
    const int operand = recurrent_gate(g, args_.options);
    const Rows<C> a = rows_of(operand_[t & 1][operand], slice, 0);
    const Rows<C> d{s.d + j - slice.unit, row_};
    if (!dropout()) {
      const Rows<const C> init = g == first_gate
                                     ? Rows<const C>{start.data + j - slice.unit,
                                                     start.row}
                                     : Rows<const C>{d.data, d.row};
      recurrent_[g].product(rows, {a.data, a.row}, units(), j, n, s.panel, init,
                            d);
      return;
    }
    const Rows<C> one_gate{s.product, split_.panel_columns};
    recurrent_[g].product(rows, {a.data, a.row}, units(), j, n, s.panel,
                          {zeros_, 0}, one_gate);
    kernels_.add_scaled_rows({one_gate.data, one_gate.row},
                             {args_.recurrent_dropout[g].data + j,
                              args_.recurrent_dropout[g].row},
                             order_.block(slice, rows), n, d);
  };
  for_each_panel(slice.unit, slice.units, split_.panel_columns,
                 [&](Index j, Index n) {
                   for (int g = first_gate; g < end_gate; ++g) product(g, j, n);
                 });
}

// d = what reaches h_t from the steps after it.
template <class T>
void Backward<T>::arrive(const Scratch& s, const Slice& slice, Index t) {
  const Rows<C> own = rows_of(carry_, slice, slice.unit);
  const Rows<const C> carry{own.data, own.row};
  const Index active = t + 1 < steps() ? order_.active(slice, t + 1) : 0;
  if (active > 0)
    products(s, slice, t + 1, 0, state_gates(), active,
             blends() || order_.masked() ? carry : Rows<const C>{zeros_, 0});
  copy_rows(carry, slice, active, slice.rows, s.d);
}

template <class T>
void Backward<T>::step(const Scratch& s, const Slice& slice, Index t,
                       int stage) {
  const Index active = order_.active(slice, t);
  const bool holes = order_.holes(slice, t, active, s.valid);
  const std::uint8_t* valid = holes ? s.valid : nullptr;
  find_previous(s, slice, t, active);

  const Index unit = slice.unit;
  BackwardTile<T> tile;
  tile.rows = order_.block(slice, active, valid);
  tile.options = args_.options;
  tile.unit = unit;
  tile.units = slice.units;
  tile.d = {s.d, row_};
  if (blends() || order_.masked()) tile.carry = rows_of(carry_, slice, unit);
  if (cell_state()) tile.d_cell_state = rows_of(d_cell_state_, slice, unit);
  if (output_carry_) tile.output_carry = rows_of(output_carry_, slice, unit);
  tile.h_prev = s.h_prev;
  tile.c_prev = s.c_prev;
  tile.output = step_of(args_.outputs, t, unit);
  tile.d_output = step_of(args_.d_outputs, t, unit);
  for (int g = 0; g < gradient_count(); ++g) {
    if (has_operand(g))
      tile.operand[g] = rows_of(operand_[t & 1][g], slice, unit);
    if (peephole_[g]) tile.peephole[g] = peephole_[g] + unit;
    tile.d_gates[g] = {args_.d_gates[g].at(t, 0) + unit, args_.d_gates[g].row};
  }
  for (int r = 0; r < kMaxReserve; ++r) {
    tile.reserve[r] = step_of(args_.reserve[r], t, unit);
    tile.d_reserve[r] = step_of(args_.d_reserve[r], t, unit);
  }
  if (stage == 0)
    arrive(s, slice, t);
  else
    products(s, slice, t, state_gates(), gate_count(), active, {zeros_, 0});
  kernels_.backward_gates(args_.options, stage)(tile);
  if (stage == 0 && order_.masked()) pass_masked(s, slice, t, active, valid);
}

// Through a masked step the state's gradient passes, and no gate gets any.
template <class T>
void Backward<T>::pass_masked(const Scratch& s, const Slice& slice, Index t,
                              Index active, const std::uint8_t* valid) {
  const auto bytes = static_cast<std::size_t>(slice.units) * sizeof(T);
  for (Index i = valid ? 0 : active; i < slice.rows; ++i) {
    if (i < active && valid[i]) continue;
    const Index b = order_.batch(slice.row + i);
    for (int g = 0; g < gradient_count(); ++g) {
      // In place of the reserve they are zeros already.
      if (args_.d_gates[g].data == args_.reserve[g].data) continue;
      std::memset(static_cast<void*>(args_.d_gates[g].at(t, b) + slice.unit), 0,
                  bytes);
    }
    const Slice row{slice.row + i, 1, slice.unit, slice.units};
    if (output_carry_)
      kernels_.add_rows(step_of(args_.d_outputs, t, slice.unit),
                        order_.block(row, 1), slice.units,
                        rows_of(output_carry_, row, slice.unit));
    if (i >= active) continue;
    std::memcpy(rows_of(carry_, row, slice.unit).data, s.d + i * row_,
                padded_bytes(slice));
    for (C* operand : operand_[t & 1])
      if (operand)
        std::memset(rows_of(operand, row, slice.unit).data, 0,
                    padded_bytes(slice));
  }
}

template <class T>
void Backward<T>::finish(const Scratch& s, const Slice& slice) {
  if (args_.d_c0)
    kernels_.write_rows({d_cell_state_ + slice.row * row_ + slice.unit, row_},
                        order_.block(slice, slice.rows), slice.units,
                        {args_.d_c0.data + slice.unit, args_.d_c0.row});
  if (!args_.d_h0) return;
  arrive(s, slice, -1);
  kernels_.write_rows({s.d, row_}, order_.block(slice, slice.rows), slice.units,
                      {args_.d_h0.data + slice.unit, args_.d_h0.row});
}

template <class T>
void Backward<T>::run() {
  if (args_.shape.batch == 0 || units() == 0) return;
  prepare();
  if (split_.by_rows) {
    run_phases(threads_, 2, split_.parts, [&](Index phase, Index part) {
      if (phase == 0) return pack_part(part);
      const Scratch s = scratch_.of(*this, part);
      const Slice slice = split_.slice(part);
      for (Index t = steps() - 1; t >= 0; --t) {
        for (int stage = 0; stage < stages(); ++stage) step(s, slice, t, stage);
      }
      finish(s, slice);
    });
    return;
  }
  run_phases(threads_, stages() * steps() + 1, split_.parts,
             [&](Index phase, Index part) {
               const Scratch s = scratch_.of(*this, part);
               const Slice slice = split_.slice(part);
               if (phase == 0) pack_part(part);
               if (phase == stages() * steps())
                 finish(s, slice);
               else
                 step(s, slice, steps() - 1 - phase / stages(),
                      static_cast<int>(phase % stages()));
             },
             patience(split_, gate_count(), steps(), sizeof(C)));
}

}  // namespace

FUSED_RNN_DEFINE_CALL(rnn_backward, RnnBackward, Backward)

}  // namespace fused_rnn
