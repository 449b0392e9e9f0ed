// What holds for every implementation of the contract, whatever it runs on:
// cuts of the batch, arguments in place, results that nobody wants. A Core runs
// a call: core(call).
#ifndef FUSED_RNN_TESTS_CORE_RNN_SUITE_H_
#define FUSED_RNN_TESTS_CORE_RNN_SUITE_H_

#include "core/check.h"
#include "core/rnn.h"
#include "core/rnn_problem.h"
#include "core/rnn_results.h"

namespace fused_rnn {
namespace test {

// {T, B, I, H}
inline const Case kCases[] = {
    {"one of everything", {1, 1, 1, 1}},
    {"small primes", {3, 2, 3, 5}},
    {"a vector less one", {2, 1, 4, 15}},
    {"a vector", {2, 1, 4, 16}},
    {"a vector and one", {2, 1, 4, 17}},
    {"two vectors less one", {2, 3, 7, 31}},
    {"two vectors and one", {2, 3, 7, 33}},
    {"a block less one", {3, 7, 16, 47}},
    {"a block", {3, 8, 16, 48}},
    {"a block and one", {3, 9, 16, 49}},
    {"two blocks", {2, 16, 33, 64}},
    {"two blocks and one", {2, 17, 31, 65}},
    {"one step", {1, 5, 13, 24}},
    {"one step of one row", {1, 1, 40, 64}},
    {"one step, threads", {1, 64, 96, 160}},
    {"no inputs", {5, 1, 0, 8}},
    {"no steps", {0, 3, 4, 8}},
    {"no rows", {4, 0, 3, 8}},
    {"no units", {4, 3, 5, 0}},
    {"less than a vector", {9, 4, 2, 3}},
    {"wide input", {2, 13, 101, 37}},
    {"several chunks", {70, 17, 8, 50}},
    {"long", {300, 2, 3, 4}},
    {"rows over threads", {20, 33, 40, 64}},
    {"columns over threads", {12, 1, 128, 256}},
    {"few rows over threads", {8, 6, 64, 192}},
};

// Rows [first, first + count) of a call.
template <class T>
void shift(Rows<T>& rows, Index first) {
  if (rows) rows.data += first * rows.row;
}
template <class T>
void shift(Sequence<T>& sequence, Index first) {
  if (sequence) sequence.data += first * sequence.row;
}
template <class T>
RnnForward<T> slice(RnnForward<T> g, Index first, Index count) {
  g.shape.batch = count;
  shift(g.x, first);
  shift(g.h0, first);
  shift(g.c0, first);
  if (g.mask.data) g.mask.data += first * g.mask.row;
  for (auto& rows : g.recurrent_dropout) shift(rows, first);
  shift(g.outputs, first);
  shift(g.state, first);
  shift(g.cell_state, first);
  for (auto& sequence : g.reserve) shift(sequence, first);
  return g;
}
template <class T>
RnnBackward<T> slice(RnnBackward<T> g, Index first, Index count) {
  g.shape.batch = count;
  shift(g.h0, first);
  shift(g.c0, first);
  shift(g.outputs, first);
  for (auto& sequence : g.reserve) shift(sequence, first);
  if (g.mask.data) g.mask.data += first * g.mask.row;
  for (auto& rows : g.recurrent_dropout) shift(rows, first);
  shift(g.d_outputs, first);
  shift(g.d_state, first);
  shift(g.d_cell_state, first);
  for (auto& sequence : g.d_reserve) shift(sequence, first);
  shift(g.d_h0, first);
  shift(g.d_c0, first);
  for (auto& sequence : g.d_gates) shift(sequence, first);
  return g;
}

// A batch cut in two gives the bits of the whole.
template <class T, class Core>
void test_batch_cut(const Core& core, const Problem<T>& p, const Results<T>& given,
                    const Results<T>& whole, const Run<T>& check) {
  const Index batch = p.what.shape.batch;
  if (batch < 2) return;
  const Index cut = 1 + batch / 3;
  const Results<T> r(p);
  const auto forward = p.forward(r);
  const auto backward = p.backward(given, r);
  core(slice(forward, 0, cut));
  core(slice(forward, cut, batch - cut));
  core(slice(backward, 0, cut));
  core(slice(backward, cut, batch - cut));
  check.same("outputs of a cut batch", r.outputs, whole.outputs);
  check.same("state of a cut batch", r.state, whole.state);
  check.same("d_h0 of a cut batch", r.d_h0, whole.d_h0);
  check.same("cell state of a cut batch", r.cell_state, whole.cell_state);
  check.same("d_c0 of a cut batch", r.d_c0, whole.d_c0);
  for (int i = 0; i < p.kept_count(); ++i)
    check.same("reserve of a cut batch", r.reserve[i], whole.reserve[i]);
  for (int g = 0; g < p.gate_gradients(); ++g)
    check.same("d_gates of a cut batch", r.d_gates[g], whole.d_gates[g]);
}

// What nobody wants is not written, and what is left has the same bits.
template <class T, class Core>
void test_unwanted(const Core& core, const Problem<T>& p, const Results<T>& given,
                   const Results<T>& whole, const Run<T>& check) {
  const Results<T> r(p);
  auto g = p.forward(r);
  for (auto& sequence : g.reserve) sequence = {};
  g.outputs = {};
  g.cell_state = {};
  core(g);
  check.same("the state alone", r.state, whole.state);

  g = p.forward(r);
  for (auto& sequence : g.reserve) sequence = {};
  g.state = {};
  core(g);
  check.same("the outputs alone", r.outputs, whole.outputs);
  check.same("the cell state without the state", r.cell_state,
             whole.cell_state);

  if (p.kept_count() > 0) {
    const int only = static_cast<int>(p.what.shape.units) % p.kept_count();
    g = p.forward(r);
    for (int i = 0; i < kMaxReserve; ++i)
      if (i != only) g.reserve[i] = {};
    core(g);
    check.same("one of the reserve", r.reserve[only], whole.reserve[only]);
  }

  auto back = p.backward(given, r);
  back.d_h0 = {};
  back.d_c0 = {};
  core(back);
  for (int i = 0; i < p.gate_gradients(); ++i)
    check.same("d_gates without d_h0", r.d_gates[i], whole.d_gates[i]);

  const int last = p.gates() - 1, middle = p.gates() / 2;
  auto w = p.weight_gradient(given);
  w.d_kernel[middle] = r.d_kernel[middle].rows();
  core(w);
  check.same("d_kernel alone", r.d_kernel[middle], whole.d_kernel[middle]);
  w.d_kernel[middle] = {};
  w.d_recurrent[last] = r.d_recurrent[last].rows();
  core(w);
  check.same("d_recurrent alone", r.d_recurrent[last], whole.d_recurrent[last]);
  w.d_recurrent[last] = {};
  w.d_bias[0] = r.d_bias[0].at(0, 0);
  core(w);
  check.same("d_bias alone", r.d_bias[0], whole.d_bias[0]);
}

// Outputs that may be inputs.
template <class T, class Core>
void test_in_place(const Core& core, const Problem<T>& p, const Results<T>& given,
                   const Results<T>& whole, const Run<T>& check) {
  const Results<T> r(p);
  const auto same_values = [&](const char* what, const Array<T>& got,
                               const Array<T>& want) {
    const Array<T> values = want.fresh();
    values.for_each([&](Index t, Index b, Index j, T& v) {
      v = got.at(t, b)[j];
    });
    check.same(what, values, want);
  };
  if (p.has_h0) {
    const Array<T> h = p.h0.copy();
    const Array<T> c = p.c0.copy();
    auto g = p.forward(r);
    g.h0 = h.input_rows();
    g.state = h.rows();
    if (p.has_c0) {
      g.c0 = c.input_rows();
      g.cell_state = c.rows();
    }
    core(g);
    if (p.has_c0) same_values("cell state in place of c0", c, whole.cell_state);
    same_values("state in place of h0", h, whole.state);
    check.same("outputs with state in place of h0", r.outputs, whole.outputs);
  }
  auto g = p.backward(given, r);
  const bool over_reserve = p.gate_gradients() <= p.kept_count();
  Array<T> kept[kMaxGates];
  for (int i = 0; over_reserve && i < p.gate_gradients(); ++i) {
    kept[i] = given.reserve[i].copy();
    g.reserve[i] = kept[i].inputs();
    g.d_gates[i] = kept[i].sequence();
  }
  const Array<T> d_state = p.d_state.copy(), h0 = p.h0.copy();
  const Array<T> d_cell_state = p.d_cell_state.copy();
  if (p.has_d_cell_state) {
    g.d_cell_state = d_cell_state.input_rows();
    g.d_c0 = d_cell_state.rows();
  }
  const bool over_d_state = p.has_d_state;
  if (over_d_state) {
    g.d_state = d_state.input_rows();
    g.d_h0 = d_state.rows();
  } else if (p.has_h0) {
    g.h0 = h0.input_rows();
    g.d_h0 = h0.rows();
  }
  core(g);
  for (int i = 0; over_reserve && i < p.gate_gradients(); ++i)
    same_values("d_gates in place of the reserve", kept[i], whole.d_gates[i]);
  if (p.has_d_cell_state)
    same_values("d_c0 in place of d_cell_state", d_cell_state, whole.d_c0);
  if (over_d_state) {
    same_values("d_h0 in place of d_state", d_state, whole.d_h0);
  } else if (p.has_h0) {
    same_values("d_h0 in place of h0", h0, whole.d_h0);
  }
}

// All of them, of a core that computed `whole`.
template <class T, class Core>
void test_calls(const Core& core, const Problem<T>& p, const Results<T>& given,
                const Results<T>& whole, const Run<T>& check) {
  test_batch_cut(core, p, given, whole, check);
  test_in_place(core, p, given, whole, check);
  test_unwanted(core, p, given, whole, check);
}

}  // namespace test
}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CORE_RNN_SUITE_H_
