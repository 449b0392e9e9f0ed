// d_x = Σ_gates d_gate·kernelᵀ over all steps at once.
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

// Rows that share one pass over the weights: enough for the weights' way from
// the L3 cache to be hidden by arithmetic, few enough to stay in L2.
constexpr Index kBlock = 128;

template <class T>
class InputGradient {
 public:
  using C = Compute<T>;

  InputGradient(const RnnInputGradient<T>& args, const Threads& threads)
      : args_(args), threads_(threads), kernels_(kernels<T>()) {}

  struct Place {
    Index t;
    Index b;
  };
  // What a part has to itself.
  struct Scratch {
    Place* place = nullptr;   // [kBlock] the valid rows of a block
    C* left[kMaxGates] = {};  // [kBlock][row_], gathered
    C* d_x = nullptr;         // [kBlock][panel columns]
    C* panel = nullptr;
  };
  void plan();
  void layout(Workspace&);
  void take_scratch(Workspace&, Scratch&) const;
  void run();

 private:
  int gate_count() const { return fused_rnn::gate_count(args_.options); }
  Index all_rows() const { return args_.shape.steps * args_.shape.batch; }
  void run_block(const Scratch&, Index first, Index end, Index column,
                 Index columns);
  Index find_places(const Scratch&, Index first, Index end, Index column,
                    Index columns) const;
  Rows<const C> left(const Scratch&, int gate, Index count, Index all) const;

  const RnnInputGradient<T>& args_;
  const Threads& threads_;
  const Kernels<T>& kernels_;
  Split split_;  // of rows of all steps, or of the inputs
  Index block_ = 0;
  Index row_ = 0;
  bool one_stride_ = false;  // all rows of a gate's gradient are equally far
  Panels<T> kernel_[kMaxGates];  // transposed
  C* zeros_ = nullptr;
  PartScratch<Scratch> scratch_;
};

template <class T>
void InputGradient<T>::plan() {
  const RnnShape& shape = args_.shape;
  split_ = choose_split({threads_.count, 1, all_rows(), shape.inputs,
                         gate_count() * shape.units * shape.inputs, kernels_.width,
                         kernels_.block_rows, kernels_.max_vectors});
  // Rows are independent: split them as soon as each part gets a block.
  if (all_rows() >= split_.parts * kBlock) split_.by_rows = true;
  block_ = std::min(kBlock, std::max<Index>(1, all_rows()));
  split_.panel_columns =
      panel_columns(shape.inputs, block_, kernels_.width, kernels_.block_rows,
                    kernels_.max_vectors);
  row_ = scratch_row<C>(shape.units, kernels_.width);
  const Packing packing =
      all_rows() > kBlock ? Packing::kPacked : Packing::kStreamed;
  one_stride_ = std::is_same<T, C>::value;
  for (int g = 0; g < gate_count(); ++g) {
    kernel_[g] = Panels<T>(args_.weights.kernel[g], true, shape.units,
                           shape.inputs, packing, kernels_);
    const Sequence<const T>& d = args_.d_gates[g];
    one_stride_ = one_stride_ && (shape.batch == 1 || shape.steps == 1 ||
                                  d.step == shape.batch * d.row);
  }
}

template <class T>
void InputGradient<T>::layout(Workspace& workspace) {
  for (int g = 0; g < gate_count(); ++g) kernel_[g].take(workspace);
  zeros_ = workspace.take<C>(split_.panel_columns);
  scratch_.take(workspace, *this, split_.parts);
}

template <class T>
void InputGradient<T>::take_scratch(Workspace& own, Scratch& s) const {
  s.place = own.take<Place>(block_);
  const bool gathers = !one_stride_ || args_.mask.data;
  for (int g = 0; g < gate_count(); ++g)
    s.left[g] = own.take<C>(gathers ? block_ * row_ : 0);
  s.d_x = own.take<C>(block_ * split_.panel_columns);
  s.panel = own.take<C>(kernel_[0].buffer_size(split_.panel_columns));
}

// Lists the valid ones of some rows; masked rows get their zeros here, in the
// columns that are this part's.
template <class T>
Index InputGradient<T>::find_places(const Scratch& s, Index first, Index end,
                                    Index column, Index columns) const {
  const Index batch = args_.shape.batch;
  Index count = 0;
  for (Index m = first; m < end; ++m) {
    const Place place{m / batch, m % batch};
    const Mask& mask = args_.mask;
    if (!mask.data || mask.data[place.t * mask.step + place.b * mask.row])
      s.place[count++] = place;
    else
      std::memset(static_cast<void*>(args_.d_x.at(place.t, place.b) + column),
                  0, static_cast<std::size_t>(columns) * sizeof(T));
  }
  return count;
}

// The gate gradients of the `count` valid rows of a block of `all`; in place
// where that is the whole block.
template <class T>
Rows<const Compute<T>> InputGradient<T>::left(const Scratch& s, int gate,
                                              Index count, Index all) const {
  const Sequence<const T>& d = args_.d_gates[gate];
  if constexpr (std::is_same<T, C>::value)
    if (one_stride_ && count == all)
      return {d.at(s.place[0].t, s.place[0].b),
              args_.shape.batch == 1 ? d.step : d.row};
  for (Index i = 0; i < count; ++i)
    kernels_.read_rows({d.at(s.place[i].t, s.place[i].b), 0}, BlockRows{1},
                       args_.shape.units, {s.left[gate] + i * row_, row_});
  return {s.left[gate], row_};
}

template <class T>
void InputGradient<T>::run_block(const Scratch& s, Index first, Index end,
                                 Index column, Index columns) {
  const Index count = find_places(s, first, end, column, columns);
  if (count == 0) return;
  Rows<const C> a[kMaxGates];
  for (int g = 0; g < gate_count(); ++g) a[g] = left(s, g, count, end - first);
  const Rows<C> d_x{s.d_x, split_.panel_columns};
  for_each_panel(column, columns, split_.panel_columns, [&](Index j, Index n) {
    for (int g = 0; g < gate_count(); ++g) {
      const Rows<const C> init =
          g == 0 ? Rows<const C>{zeros_, 0} : Rows<const C>{d_x.data, d_x.row};
      kernel_[g].product(count, a[g], args_.shape.units, j, n, s.panel, init,
                         d_x);
    }
    for (Index i = 0; i < count; ++i)
      kernels_.write_rows({d_x.data + i * d_x.row, 0}, BlockRows{1}, n,
                          {args_.d_x.at(s.place[i].t, s.place[i].b) + j, 0});
  });
}

template <class T>
void InputGradient<T>::run() {
  const RnnShape& shape = args_.shape;
  if (all_rows() == 0 || shape.inputs == 0) return;
  std::fill(zeros_, zeros_ + split_.panel_columns, C(0));
  run_phases(threads_, 2, split_.parts, [&](Index phase, Index part) {
    if (phase == 0)
      return pack_share(kernel_, gate_count(), split_, part,
                        split_.panel_columns);
    const Scratch s = scratch_.of(*this, part);
    const Slice slice = split_.slice(part);
    const Index end = slice.row + slice.rows;
    for (Index m = slice.row; m < end; m += block_)
      run_block(s, m, std::min(m + block_, end), slice.unit, slice.units);
  });
}

}  // namespace

FUSED_RNN_DEFINE_CALL(rnn_input_gradient, RnnInputGradient, InputGradient)

}  // namespace fused_rnn
