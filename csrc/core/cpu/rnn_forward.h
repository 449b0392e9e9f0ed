// One forward call: how its work is cut and where its scratch lies
// (gru_forward_plan.cc), and its time loop (rnn_forward.cc).
#ifndef FUSED_RNN_CORE_CPU_RNN_FORWARD_H_
#define FUSED_RNN_CORE_CPU_RNN_FORWARD_H_

#include <algorithm>
#include <type_traits>

#include "core/cpu/call.h"
#include "core/cpu/kernels.h"
#include "core/cpu/panels.h"
#include "core/cpu/row_order.h"
#include "core/cpu/split.h"
#include "core/cpu/workspace.h"
#include "core/rnn.h"
#include "core/parallel.h"

namespace fused_rnn {

template <class T>
class Forward {
 public:
  using C = Compute<T>;

  Forward(const RnnForward<T>& args, const Threads& threads)
      : args_(args), threads_(threads), kernels_(kernels<T>()) {}

  // What a part has to itself.
  struct Scratch {
    C* gx = nullptr;             // [rows of a chunk][gates][gate_columns_]
    Index* first_row = nullptr;  // [chunk + 1]: where a step's rows are in gx
    C* gh_c = nullptr;           // [rows][gate_columns_]
    C* inputs = nullptr;         // [rows of a chunk][input_row_], gathered
    C* panel = nullptr;          // of a weight matrix, streamed
    std::uint8_t* valid = nullptr;
  };
  void plan() { plan(args_.packed != nullptr); }
  void layout(Workspace&);
  void take_scratch(Workspace&, Scratch&) const;
  void run();

  std::size_t packed_bytes();
  void pack(void* packed);

 private:
  Index steps() const { return args_.shape.steps; }
  Index units() const { return args_.shape.units; }
  int gate_count() const { return fused_rnn::gate_count(args_.options); }
  int stages() const { return two_stages(args_.options) ? 2 : 1; }
  bool after() const { return resets_after(args_.options); }
  bool dropout() const { return static_cast<bool>(args_.recurrent_dropout[0]); }
  // Gates whose recurrent products belong to a stage.
  int first_gate(int stage) const { return stage == 0 ? 0 : kCandidate; }
  int end_gate(int stage) const {
    return stages() == 2 && stage == 0 ? kCandidate : gate_count();
  }
  // Whether this gate's dropped state is that of the first.
  bool shares_dropout(int gate) const {
    const auto& masks = args_.recurrent_dropout;
    return gate > 0 && masks[gate].data == masks[0].data &&
           masks[gate].row == masks[0].row;
  }
  bool one_step() const { return steps() == 1; }
  // Rows that a part works on at a time. One step of a large batch goes block
  // by block, so that scratch does not grow with it; many steps keep a part's
  // weights in cache.
  Index block_rows(Index rows) const {
    constexpr Index kOneStepRows = 512;
    return one_step() ? std::min(rows, kOneStepRows) : rows;
  }
  template <class Body>
  void for_each_block(const Slice& slice, Body body) const {
    const Index size = std::max<Index>(1, block_rows(slice.rows));
    for (Index i = 0; i < slice.rows; i += size)
      body(Slice{slice.row + i, std::min(size, slice.rows - i), slice.unit,
                 slice.units});
  }

  void plan(bool keep_packed);
  Packing choose_packing(Index rows, Index own) const;
  void layout_weights(Workspace&);
  void prepare_biases();
  void prepare();
  void pack_part(Index part);
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
    if (gate >= end_gate(0)) return {reset_h_, row_};
    if (dropout()) return {dropped_[t & 1][gate], row_};
    return state(t);
  }
  // Where unit j's pre-activations are in a row of gx and gh_c.
  Index gx_column(const Slice& slice, Index j) const {
    return one_step() ? 0 : j - slice.unit;
  }
  // No state, no product.
  Index depth(Index t) const { return t == 0 && !args_.h0 ? 0 : units(); }

  const RnnForward<T>& args_;
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
  Panels<T> kernel_[kMaxGates];
  Panels<T> recurrent_[kMaxGates];
  C* bias_[kMaxGates] = {};      // recurrent bias included where it just adds
  C* recurrent_bias_ = nullptr;  // of the candidate, GRU reset after
  C* peephole_[kMaxGates] = {};  // null: none
  C* h_[2] = {};
  C* dropped_[2][kMaxGates] = {};  // gates with one mask share theirs
  C* reset_h_ = nullptr;
  C* cell_state_ = nullptr;
  PartScratch<Scratch> scratch_;
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CPU_RNN_FORWARD_H_
