// All that the contract computes of a problem, by plain loops and by the core,
// and how the two are compared.
#ifndef FUSED_RNN_TESTS_CORE_RNN_RESULTS_H_
#define FUSED_RNN_TESTS_CORE_RNN_RESULTS_H_

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "core/check.h"
#include "core/rnn.h"
#include "core/rnn_problem.h"
#include "core/naive_rnn.h"
#include "core/thread_pool.h"

namespace fused_rnn {
namespace test {

inline Threads threads_of(int count) {
  static ThreadPool pool(8);
  Threads threads = pool.threads();
  threads.count = count;
  return threads;
}

template <class T>
struct Rounding {
  static constexpr double stored = std::numeric_limits<T>::epsilon();
  static constexpr double smallest = 0;
};
template <>
struct Rounding<Half> {
  static constexpr double stored = 0x1p-10;
  static constexpr double smallest = 0x1p-24;
};
template <>
struct Rounding<BFloat16> {
  static constexpr double stored = 0x1p-7;
  static constexpr double smallest = 0;
};

// Says where a check failed.
template <class T>
class Run {
 public:
  Run(const Problem<T>& problem, std::string isa, int threads)
      : problem_(problem), isa_(std::move(isa)), threads_(threads) {}

  // Both sides come from the same numbers, by sums of `terms` products and a
  // few functions in the compute type, and are rounded to T once.
  void close(const char* what, const Array<T>& got, const Array<T>& want,
             Index terms) const {
    double norm = 0;
    want.for_each([&](Index, Index, Index, T& v) {
      norm = std::max(norm, std::abs(static_cast<double>(to_compute(v))));
    });
    const double computed = 4 * (terms + 16) * norm *
                            std::numeric_limits<Compute<T>>::epsilon();
    bool ok = true;
    want.for_each([&](Index t, Index b, Index j, T& v) {
      const double w = static_cast<double>(to_compute(v));
      const double g = static_cast<double>(to_compute(got.at(t, b)[j]));
      const double most = computed + Rounding<T>::stored * std::abs(w) +
                          Rounding<T>::smallest;
      if (ok && !(std::abs(g - w) <= most)) {
        ok = say(what, "[%d, %d, %d] = %.9g, not %.9g (%.2g)", t, b, j, g, w,
                 most);
      }
    });
    ok ? say_ok() : void();
    if (!got.gaps_untouched()) say(what, "wrote between rows");
  }

  void same(const char* what, const Array<T>& got, const Array<T>& want) const {
    if (got.same_bits(want)) return say_ok();
    bool said = false;
    want.for_each([&](Index t, Index b, Index j, T& v) {
      if (said || std::memcmp(&v, &got.at(t, b)[j], sizeof(T)) == 0) return;
      said = true;
      say(what, "[%d, %d, %d]: bits differ: %.9g, not %.9g (%.2g)", t, b, j,
          static_cast<double>(to_compute(got.at(t, b)[j])),
          static_cast<double>(to_compute(v)), 0.0);
    });
    if (!said) say(what, "wrote between rows");
  }

 private:
  static void say_ok() { CHECK_THAT(true, "%s", ""); }

  bool say(const char* what, const char* format, Index t = 0, Index b = 0,
           Index j = 0, double got = 0, double want = 0,
           double most = 0) const {
    char text[200];
    std::snprintf(text, sizeof(text), format, static_cast<int>(t),
                  static_cast<int>(b), static_cast<int>(j), got, want, most);
    const RnnShape& s = problem_.what.shape;
    return CHECK_THAT(
        false,
        "%s, %s (T %d, B %d, I %d, H %d; %d bytes, mask %d%s, dropout %d, "
        "activations %d %d), %s, %d threads: %s %s",
        problem_.kind.name, problem_.what.name, static_cast<int>(s.steps),
        static_cast<int>(s.batch), static_cast<int>(s.inputs),
        static_cast<int>(s.units), static_cast<int>(sizeof(T)),
        static_cast<int>(problem_.masking),
        problem_.options.zero_output_for_mask ? " zero" : "",
        problem_.has_dropout, static_cast<int>(problem_.options.activation),
        static_cast<int>(problem_.options.recurrent_activation), isa_.c_str(),
        threads_, what, text);
  }

  const Problem<T>& problem_;
  const std::string isa_;
  const int threads_;
};

template <class T>
void call(const RnnForward<T>& g, const Threads& threads, void* workspace) {
  rnn_forward(g, threads, workspace);
}
template <class T>
void call(const RnnBackward<T>& g, const Threads& threads, void* workspace) {
  rnn_backward(g, threads, workspace);
}
template <class T>
void call(const RnnInputGradient<T>& g, const Threads& threads,
          void* workspace) {
  rnn_input_gradient(g, threads, workspace);
}
template <class T>
void call(const RnnWeightGradient<T>& g, const Threads& threads,
          void* workspace) {
  rnn_weight_gradient(g, threads, workspace);
}

template <class G>
void run(const G& g, int count) {
  const Threads threads = threads_of(count);
  const Scratch scratch(workspace_bytes(g, threads));
  call(g, threads, scratch.get());
}

template <class T>
struct Results {
  Array<T> outputs, state, cell_state, reserve[kMaxReserve];
  Array<T> d_gates[kMaxGates], d_h0, d_c0, d_x;
  Array<T> d_kernel[kMaxGates], d_recurrent[kMaxGates];
  Array<T> d_bias[kMaxGates], d_recurrent_bias[kMaxGates];

  explicit Results(const Problem<T>& p)
      : outputs(p.outputs.fresh()),
        state(p.state.fresh()),
        cell_state(p.cell_state.fresh()),
        d_h0(p.d_h0.fresh()),
        d_c0(p.d_c0.fresh()),
        d_x(p.d_x.fresh()) {
    for (int r = 0; r < kMaxReserve; ++r) reserve[r] = p.reserve[r].fresh();
    for (int g = 0; g < kMaxGates; ++g) {
      d_gates[g] = p.d_gates[g].fresh();
      d_kernel[g] = p.d_kernel[g].fresh();
      d_recurrent[g] = p.d_recurrent[g].fresh();
      d_bias[g] = p.d_bias[g].fresh();
      d_recurrent_bias[g] = p.d_recurrent_bias[g].fresh();
    }
  }

  void receive(RnnWeightGradient<T>& g) const {
    for (int i = 0; i < gate_count(g.options); ++i) {
      g.d_kernel[i] = d_kernel[i].rows();
      g.d_recurrent[i] = d_recurrent[i].rows();
      g.d_bias[i] = d_bias[i].at(0, 0);
      if (g.options.reset_after)
        g.d_recurrent_bias[i] = d_recurrent_bias[i].at(0, 0);
    }
  }
};


// f(name, array of a, array of b, terms of its sums) for all that is computed.
template <class T, class F>
void for_results(const Problem<T>& p, const Results<T>& a, const Results<T>& b,
                 F f) {
  const RnnShape& s = p.what.shape;
  const Index forward = s.inputs + s.units, backward = p.gates() * s.units;
  const Index rows = s.steps * s.batch;
  f("outputs", a.outputs, b.outputs, forward);
  f("state", a.state, b.state, forward);
  const auto numbered = [](const char* what, int i) {
    return std::string(what) + " " + std::to_string(i);
  };
  for (int i = 0; i < p.kept_count(); ++i)
    f(numbered("reserve", i).c_str(), a.reserve[i], b.reserve[i], forward);
  for (int g = 0; g < p.gate_gradients(); ++g)
    f(numbered("d_gates", g).c_str(), a.d_gates[g], b.d_gates[g], backward);
  // A product of all steps' factors: so are the relative errors.
  const Index through = backward * std::max<Index>(1, s.steps);
  f("d_h0", a.d_h0, b.d_h0, through);
  if (has_cell_state(p.options)) {
    f("cell state", a.cell_state, b.cell_state, forward);
    f("g(c_t)", a.reserve[kCellOutput], b.reserve[kCellOutput], forward);
    f("d_c0", a.d_c0, b.d_c0, through);
  }
  f("d_x", a.d_x, b.d_x, backward);
  for (int g = 0; g < p.gates(); ++g) {
    f(numbered("d_kernel", g).c_str(), a.d_kernel[g], b.d_kernel[g], rows);
    f(numbered("d_recurrent", g).c_str(), a.d_recurrent[g], b.d_recurrent[g],
      rows);
    f("d_bias", a.d_bias[g], b.d_bias[g], rows);
    if (p.options.reset_after)
      f("d_recurrent_bias", a.d_recurrent_bias[g], b.d_recurrent_bias[g], rows);
  }
}

template <class T>
Results<T> naive_results(const Problem<T>& p) {
  Results<T> r(p);
  naive::rnn_forward(p.forward(r));
  naive::rnn_backward(p.backward(r, r));
  naive::rnn_input_gradient(p.input_gradient(r, r));
  RnnWeightGradient<T> w = p.weight_gradient(r);
  r.receive(w);
  naive::rnn_weight_gradient(w);
  return r;
}

// Each function gets what the naive ones computed, so that errors do not add up
// and every instruction set and thread count sees the same arguments. A Core
// runs a call.
template <class T, class Core>
Results<T> core_results(const Core& core, const Problem<T>& p,
                        const Results<T>& given) {
  Results<T> r(p);
  core(p.forward(r));
  core(p.backward(given, r));
  core(p.input_gradient(given, r));
  RnnWeightGradient<T> w = p.weight_gradient(given);
  r.receive(w);
  core(w);
  return r;
}

}  // namespace test
}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CORE_RNN_RESULTS_H_
