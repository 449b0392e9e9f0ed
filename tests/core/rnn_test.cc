// The core against plain loops: every instruction set, type and cell,
// over shapes named by the edge that they hit and random options and layouts.
#include <string>
#include <vector>

#include "core/check.h"
#include "core/naive_rnn.h"
#include "core/rnn.h"
#include "core/rnn_problem.h"
#include "core/rnn_results.h"
#include "core/rnn_suite.h"
#include "core/isa.h"
#include "core/parallel_limits.h"

namespace fused_rnn {
namespace test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const std::vector<int> kThreads = {4};
const std::vector<int> kManyThreads = {16};
constexpr int kSeeds = 1;
#else
const std::vector<int> kThreads = {2, 4, 8};
const std::vector<int> kManyThreads = {2, 16};
constexpr int kSeeds = 2;
#endif

// The gradients of an LSTM's peepholes, which only the core on processors gives,
// without the other weights'.
template <class T, class Core>
std::vector<Array<T>> peephole_gradients(const Core& core, const Problem<T>& p,
                                         const Results<T>& given) {
  std::vector<Array<T>> d;
  if (!p.cell_is(Cell::kLstm)) return d;
  RnnWeightGradient<T> g = p.weight_gradient(given);
  for (const int gate : {kInput, kForget, kOutput}) {
    d.push_back(p.d_bias[gate].fresh());
    g.d_peephole[gate] = d.back().at(0, 0);
  }
  core(g);
  return d;
}

template <class T>
void test_problem(const Problem<T>& p, const std::vector<int>& teams) {
  const Results<T> want = naive_results(p);
  const auto plain = [](const auto& g) { naive::rnn_weight_gradient(g); };
  const auto want_peepholes = peephole_gradients(plain, p, want);
  const Index rows = p.what.shape.steps * p.what.shape.batch;
  for (const std::string& isa : supported_isas()) {
    const std::string error = select_isa(isa);
    CHECK_THAT(error.empty(), "%s", error.c_str());
    const auto one_thread = [](const auto& g) { run(g, 1); };
    const Results<T> alone = core_results(one_thread, p, want);
    const Run<T> check(p, isa, 1);
    for_results(p, alone, want, [&](const auto&... a) { check.close(a...); });
    const auto peepholes = peephole_gradients(one_thread, p, want);
    for (std::size_t i = 0; i < peepholes.size(); ++i)
      check.close("d_peephole", peepholes[i], want_peepholes[i], rows);
    for (int threads : teams) {
      const Run<T> check_threads(p, isa, threads);
      const auto core = [&](const auto& g) { run(g, threads); };
      for_results(p, core_results(core, p, want), alone,
                  [&](const char* what, const Array<T>& a, const Array<T>& b,
                      Index) { check_threads.same(what, a, b); });
      const auto of_team = peephole_gradients(core, p, want);
      for (std::size_t i = 0; i < peepholes.size(); ++i)
        check_threads.same("d_peephole", of_team[i], peepholes[i]);
    }
    test_calls(one_thread, p, want, alone, check);
  }
}

// Edges that only the core on processors has: how it splits and packs, some of
// them with teams larger than usual.
const Case kSplitCases[] = {
    {"one step, rows over threads", {1, 150, 120, 100}},
    {"one step, blocks of rows", {1, 700, 5, 20}},
    {"one step, blocks of rows, columns over 16 threads", {1, 600, 50, 60}},
    {"weights beyond the cache", {5, 1, 7, 530}},
    {"one step, weights beyond the cache", {1, 1, 9, 530}},
};

template <class T>
void test_type() {
  std::uint32_t seed = 1;
  const auto test = [&seed](const Case& c, const std::vector<int>& teams) {
    for (int i = 0; i < kSeeds; ++i) {
      for (const Kind& kind : kKinds)
        test_problem(Problem<T>(c, kind, seed++), teams);
    }
  };
  for (const Case& c : kCases) test(c, kThreads);
  for (const Case& c : kSplitCases) test(c, kManyThreads);
}

}  // namespace
}  // namespace test
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  set_processor_limit(8);  // teams of eight whatever the machine has
  test::test_type<float>();
  test::test_type<double>();
  test::test_type<Half>();
  test::test_type<BFloat16>();
  return test::report("rnn_test");
}
