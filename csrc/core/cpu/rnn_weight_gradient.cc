// The gradients of weights and biases: sums over all valid rows of all steps,
// in row order, one chain a sum.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/cpu/call.h"
#include "core/cpu/kernels.h"
#include "core/cpu/panels.h"
#include "core/cpu/split.h"
#include "core/cpu/workspace.h"
#include "core/rnn.h"
#include "core/parallel.h"

namespace fused_rnn {
namespace {

// Rows summed in registers before a sum goes back to memory: a panel of three
// vectors so deep is 48 KB with AVX-512, about the L1 cache.
constexpr Index kDepth = 256;

// With fewer rows than this the sums' own way to memory is the work: then row
// after row of them, else panel after panel.
constexpr Index kDeepEnough = 16;

// Rows an odd number of cache lines apart fall into all sets of a cache.
template <class C>
Index odd_row(Index n) {
  const Index line = 64 / static_cast<Index>(sizeof(C));
  return (ceil_div(n, line) | 1) * line;
}

template <class T>
class WeightGradient {
 public:
  using C = Compute<T>;

  WeightGradient(const RnnWeightGradient<T>& args, const Threads& threads)
      : args_(args), threads_(threads), kernels_(kernels<T>()) {}

  // Rows of one step that stand side by side in the batch.
  struct Run {
    Index t;
    Index b;
    Index count;
    Rows<const T> h_prev;  // null: zeros
    Rows<const T> c_prev;  // likewise; of peepholes only
  };
  // What a part has to itself.
  struct Scratch {
    Run* runs = nullptr;  // [kDepth]
    // Left sides, group_ columns at a time: [columns / group_][kDepth][group_].
    C* inputs = nullptr;
    C* h_prev = nullptr;
    C* scaled = nullptr;        // h_prev times r or a dropout mask
    C* d_gate[kMaxGates] = {};  // [kDepth][gate_row_]
    C* seen = nullptr;          // the same, times what a peephole sees
  };
  void plan();
  void layout(Workspace&);
  void take_scratch(Workspace&, Scratch&) const;
  void run();

 private:
  // One matrix to be summed: its rows are inputs or units, its columns a
  // gate's units. Sums may be the caller's array or scratch.
  struct Sum {
    Rows<T> result;
    Index rows = 0;
    Rows<C> sum;
  };
  Index units() const { return args_.shape.units; }
  Index all_rows() const { return args_.shape.steps * args_.shape.batch; }
  int gate_count() const { return fused_rnn::gate_count(args_.options); }
  bool reads_reset_h(int gate) const {
    return two_stages(args_.options) && gate == kCandidate;
  }
  bool dropout() const { return static_cast<bool>(args_.recurrent_dropout[0]); }
  static bool wanted(const Sum (&sums)[kMaxGates]) {
    return std::any_of(sums, sums + kMaxGates,
                       [](const Sum& sum) { return sum.result.data; });
  }
  // Groups are a cache line off a multiple of 4 KB apart: filling them row by
  // row would otherwise hit one set of the L1 cache.
  Index group_stride() const {
    return depth_ * group_ + 64 / static_cast<Index>(sizeof(C));
  }

  void take_sum(Workspace&, Sum&, Rows<T> result, Index rows);
  bool valid(Index t, Index b) const {
    const Mask& mask = args_.mask;
    return !mask.data || mask.data[t * mask.step + b * mask.row];
  }
  Index previous_valid(Index t, Index b) const;
  Index run_length(Index t, Index b, Index previous, Index most) const;
  static Rows<const T> left_by(Index step, const Sequence<const T>& states,
                               Rows<const T> first, Index b);
  static Rows<const T> step_row(Rows<const T> rows, Index b) {
    if (rows) rows.data += b * rows.row;
    return rows;
  }
  void run_part(Index part);
  void gather_gates(const Scratch&, Index runs, const Slice&);
  void gather_inputs(const Scratch&, Index runs);
  const C* recurrent_left(const Scratch&, int gate, Index runs,
                          bool& h_prev_is_there);
  const C* seen(const Scratch&, int gate, Index runs, const Slice&);
  void add(const Sum&, const C* left, Index group, const C* right, Index count,
           const Slice&, bool first);
  void write(const Sum&, const Slice&);
  template <class Body>
  void for_each_sum(Body body) {
    for (int g = 0; g < gate_count(); ++g) {
      body(kernel_[g]);
      body(recurrent_[g]);
      body(bias_[g]);
      body(recurrent_bias_[g]);
      body(peephole_[g]);
    }
  }

  const RnnWeightGradient<T>& args_;
  const Threads& threads_;
  const Kernels<T>& kernels_;
  Split split_;  // of the units
  Index depth_ = 0;
  Index group_ = 0;  // columns of a left side that lie together
  Index gate_row_ = 0;
  Sum kernel_[kMaxGates];
  Sum recurrent_[kMaxGates];
  Sum bias_[kMaxGates];
  Sum recurrent_bias_[kMaxGates];
  Sum peephole_[kMaxGates];
  C* zeros_ = nullptr;  // [panel columns]
  C* one_ = nullptr;
  PartScratch<Scratch> scratch_;
};

template <class T>
void WeightGradient<T>::plan() {
  const RnnShape& shape = args_.shape;
  split_ = choose_split({threads_.count, 1, all_rows(), units(),
                         gate_count() * units() * (shape.inputs + units()),
                         kernels_.width, kernels_.block_rows,
                         kernels_.max_vectors});
  const Index own = split_.most_units();
  split_.panel_columns =
      panel_columns(own, kernels_.block_rows, kernels_.width,
                    kernels_.block_rows, kernels_.max_vectors);
  depth_ = std::min(kDepth, std::max<Index>(1, all_rows()));
  group_ = std::max(kernels_.width, kernels_.block_rows);
  gate_row_ = odd_row<C>(own);
}

template <class T>
void WeightGradient<T>::take_sum(Workspace& workspace, Sum& sum, Rows<T> result,
                                 Index rows) {
  sum.result = result;
  sum.rows = rows;
  if (!result) return;
  if constexpr (std::is_same<T, C>::value) {
    // Whole vectors fit into the caller's rows: sum there.
    if (units() % kernels_.width == 0) {
      sum.sum = result;
      return;
    }
  }
  const Index row = round_up(units(), kernels_.width);
  sum.sum = {workspace.take<C>(rows * row), row};
}

template <class T>
void WeightGradient<T>::layout(Workspace& workspace) {
  for (int g = 0; g < gate_count(); ++g) {
    take_sum(workspace, kernel_[g], args_.d_kernel[g], args_.shape.inputs);
    take_sum(workspace, recurrent_[g], args_.d_recurrent[g], units());
    take_sum(workspace, bias_[g], {args_.d_bias[g], units()}, 1);
    take_sum(workspace, recurrent_bias_[g],
             {args_.d_recurrent_bias[g], units()}, 1);
    take_sum(workspace, peephole_[g], {args_.d_peephole[g], units()}, 1);
  }
  zeros_ = workspace.take<C>(std::max<Index>(split_.panel_columns, 1));
  one_ = workspace.take<C>(1);
  scratch_.take(workspace, *this, split_.parts);
}

template <class T>
void WeightGradient<T>::take_scratch(Workspace& own, Scratch& s) const {
  s.runs = own.take<Run>(depth_);
  const Index inputs = args_.shape.inputs;
  const auto left = [&](Index columns) {
    return own.take<C>(ceil_div(columns, group_) * group_stride());
  };
  s.inputs = left(inputs);
  s.h_prev = left(units());
  s.scaled = left(two_stages(args_.options) || dropout() ? units() : 0);
  for (int g = 0; g < gate_gradient_count(args_.options); ++g)
    s.d_gate[g] = own.take<C>(depth_ * gate_row_);
  s.seen = own.take<C>(wanted(peephole_) ? depth_ * gate_row_ : 0);
}

template <class T>
Index WeightGradient<T>::previous_valid(Index t, Index b) const {
  do --t;
  while (t >= 0 && !valid(t, b));
  return t;
}

// Rows from the valid row b on that are valid at step t, and whose states come
// from the same previous step.
template <class T>
Index WeightGradient<T>::run_length(Index t, Index b, Index previous,
                                    Index most) const {
  if (!args_.mask.data) return most;
  Index n = 1;
  while (n < most && valid(t, b + n) && previous_valid(t, b + n) == previous)
    ++n;
  return n;
}

// The state that a step left, the first one if it is -1.
template <class T>
Rows<const T> WeightGradient<T>::left_by(Index step,
                                         const Sequence<const T>& states,
                                         Rows<const T> first, Index b) {
  if (step >= 0) return {states.at(step, b), states.row};
  return step_row(first, b);
}

// The gate gradients of some runs, the slice's units.
template <class T>
void WeightGradient<T>::gather_gates(const Scratch& s, Index runs,
                                     const Slice& slice) {
  for (int g = 0; g < gate_gradient_count(args_.options); ++g) {
    C* to = s.d_gate[g];
    for (const Run* run = s.runs; run < s.runs + runs; ++run) {
      kernels_.read_rows({args_.d_gates[g].at(run->t, run->b) + slice.unit,
                          args_.d_gates[g].row},
                         BlockRows{run->count}, slice.units, {to, gate_row_});
      to += run->count * gate_row_;
    }
  }
}

template <class T>
void WeightGradient<T>::gather_inputs(const Scratch& s, Index runs) {
  C* to = s.inputs;
  for (const Run* run = s.runs; run < s.runs + runs; ++run) {
    kernels_.read_groups({args_.x.at(run->t, run->b), args_.x.row}, {}, {},
                         run->count, args_.shape.inputs, to, group_,
                         group_stride());
    to += run->count * group_;
  }
}

// What a gate's recurrent weights were multiplied by in the forward pass.
template <class T>
const Compute<T>* WeightGradient<T>::recurrent_left(const Scratch& s, int gate,
                                                    Index runs,
                                                    bool& h_prev_is_there) {
  const bool reset = reads_reset_h(gate);
  const bool plain = !reset && !dropout();
  // h_prev itself serves all gates that read it unchanged.
  if (plain && h_prev_is_there) return s.h_prev;
  h_prev_is_there = plain || h_prev_is_there;
  C* const left = plain ? s.h_prev : s.scaled;
  C* to = left;
  for (const Run* run = s.runs; run < s.runs + runs; ++run) {
    Rows<const T> r;
    if (reset) r = {args_.reset.at(run->t, run->b), args_.reset.row};
    kernels_.read_groups(run->h_prev, r,
                         step_row(args_.recurrent_dropout[gate], run->b),
                         run->count, units(), to, group_, group_stride());
    to += run->count * group_;
  }
  return left;
}

// A gate's gradients times what its peephole sees: the new cell state, if it is
// the output gate, else the previous.
template <class T>
const Compute<T>* WeightGradient<T>::seen(const Scratch& s, int gate,
                                          Index runs, const Slice& slice) {
  const C* d = s.d_gate[gate];
  C* to = s.seen;
  for (const Run* run = s.runs; run < s.runs + runs; ++run) {
    const Rows<const T> c = gate == kOutput
                                ? left_by(run->t, args_.cell_states, {}, run->b)
                                : run->c_prev;
    const Rows<C> rows{to, gate_row_};
    if (c)
      kernels_.scale_rows({d, gate_row_}, {c.data + slice.unit, c.row},
                          BlockRows{run->count}, slice.units, rows);
    else
      kernels_.read_rows({}, BlockRows{run->count}, slice.units, rows);
    d += run->count * gate_row_;
    to += run->count * gate_row_;
  }
  return s.seen;
}

// sum (+)= leftᵀ·right over `count` rows, for the slice's columns. The left
// side is one column that repeats where group is 0.
template <class T>
void WeightGradient<T>::add(const Sum& sum, const C* left, Index group,
                            const C* right, Index count, const Slice& slice,
                            bool first) {
  if (!sum.result) return;
  const Index block = kernels_.block_rows;
  const auto tile = [&](Index i, Index j, Index n) {
    const Index rows = std::min(block, sum.rows - i);
    C* to = sum.sum.data + i * sum.sum.row + j;
    const TileArgs<C> args{
        group ? left + i / group * group_stride() + i % group : left,
        group,
        right + j - slice.unit,
        gate_row_,
        count,
        first ? zeros_ : to,
        first ? 0 : sum.sum.row,
        to,
        sum.sum.row,
        reinterpret_cast<const char*>(to + block * sum.sum.row),
        sum.sum.row * static_cast<Index>(sizeof(C))};
    kernels_.tile_transposed[rows][ceil_div(n, kernels_.width)](args);
  };
  const auto blocks = [&](auto body) {
    for (Index i = 0; i < sum.rows; i += block) body(i);
  };
  const auto panels = [&](auto body) {
    for_each_panel(slice.unit, slice.units, split_.panel_columns, body);
  };
  if (count >= kDeepEnough)
    panels([&](Index j, Index n) { blocks([&](Index i) { tile(i, j, n); }); });
  else
    blocks([&](Index i) { panels([&](Index j, Index n) { tile(i, j, n); }); });
}

template <class T>
void WeightGradient<T>::write(const Sum& sum, const Slice& slice) {
  if (!sum.result) return;
  if constexpr (std::is_same<T, C>::value)
    if (sum.sum.data == sum.result.data) return;
  kernels_.write_rows(
      {sum.sum.data + slice.unit, sum.sum.row}, BlockRows{sum.rows},
      slice.units, {sum.result.data + slice.unit, sum.result.row});
}

template <class T>
void WeightGradient<T>::run_part(Index part) {
  const Scratch s = scratch_.of(*this, part);
  const Slice slice = split_.slice(part);
  const RnnShape& shape = args_.shape;

  bool first = true;
  const auto add_block = [&](Index runs, Index count) {
    gather_gates(s, runs, slice);
    if (wanted(kernel_)) gather_inputs(s, runs);
    for (int g = 0; g < gate_count(); ++g) {
      const C* right = s.d_gate[g];
      add(kernel_[g], s.inputs, group_, right, count, slice, first);
      add(bias_[g], one_, 0, right, count, slice, first);
      if (peephole_[g].result)
        add(peephole_[g], one_, 0, seen(s, g, runs, slice), count, slice,
            first);
    }
    bool h_prev_is_there = false;
    for (int g = 0; g < gate_count(); ++g) {
      const C* right = s.d_gate[recurrent_gate(g, args_.options)];
      if (recurrent_[g].result)
        add(recurrent_[g], recurrent_left(s, g, runs, h_prev_is_there),
            group_, right, count, slice, first);
      add(recurrent_bias_[g], one_, 0, right, count, slice, first);
    }
    first = false;
  };

  Index runs = 0;
  Index count = 0;
  const auto flush = [&] {
    add_block(runs, count);
    runs = count = 0;
  };
  for (Index t = 0; t < shape.steps; ++t) {
    for (Index b = 0, n; b < shape.batch; b += n) {
      n = 1;
      if (!valid(t, b)) continue;
      const Index previous = previous_valid(t, b);
      n = run_length(t, b, previous,
                     std::min(shape.batch - b, depth_ - count));
      s.runs[runs++] = {t, b, n,
                        left_by(previous, args_.outputs, args_.h0, b), {}};
      if (wanted(peephole_))
        s.runs[runs - 1].c_prev =
            left_by(previous, args_.cell_states, args_.c0, b);
      count += n;
      if (count == depth_) flush();
    }
  }
  // No valid row at all: the sums are still to become zeros.
  if (count > 0 || first) flush();
  for_each_sum([&](const Sum& sum) { write(sum, slice); });
}

template <class T>
void WeightGradient<T>::run() {
  if (units() == 0) return;
  std::fill(zeros_, zeros_ + split_.panel_columns, C(0));
  *one_ = C(1);
  run_parts(threads_, split_.parts, [&](Index part) { run_part(part); });
}

}  // namespace

FUSED_RNN_DEFINE_CALL(rnn_weight_gradient, RnnWeightGradient, WeightGradient)

}  // namespace fused_rnn
