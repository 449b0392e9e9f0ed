// The core's CUDA path, emulated on the CPU, against plain loops: the cases and
// rules of rnn_test.cc. What it enqueues is looked at in cuda_enqueue_test.cc.
#include <cstdlib>

#include "core/check.h"
#include "core/cuda/launch.h"
#include "core/cuda_calls.h"
#include "core/rnn_problem.h"
#include "core/rnn_results.h"
#include "core/rnn_suite.h"

namespace fused_rnn {
namespace test {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreads = true;  // looks at threads alone, and slowly
constexpr int kSeeds = 0;
constexpr Index kMostStates = 0;
#elif defined(__SANITIZE_ADDRESS__)
constexpr bool kThreads = false;
constexpr int kSeeds = 1;
constexpr Index kMostStates = 2000;  // of a problem of which all is tested
#else
constexpr bool kThreads = false;
constexpr int kSeeds = 2;
constexpr Index kMostStates = 1 << 20;
#endif

// Runs calls, on a stream that is told from others.
struct Emulation {
  template <class G>
  void operator()(const G& g) const {
    Index products = 0;
    const cuda::Device device{&products, plain_product, &products};
    const Scratch scratch(cuda::workspace_bytes(g));
    cuda::launches = {};
    cuda::launches.stream = device.stream;
    const cuda::Error error = call(g, device, scratch.get());
    CHECK_THAT(!error, "%s: %s", error.where, error.what);
    CHECK_THAT(cuda::launches.elsewhere == 0, "another stream");
    cooperative += cuda::launches.cooperative;
  }
  Index& cooperative;  // launches
};

// How many launches were cooperative.
template <class T>
Index test_problem(const Problem<T>& p, const char* name, bool all_calls) {
  const Results<T> want = naive_results(p);
  Index cooperative = 0;
  const Emulation core{cooperative};
  const Results<T> got = core_results(core, p, want);
  const Run<T> check(p, name, 1);
  for_results(p, got, want, [&](const auto&... a) { check.close(a...); });
  if (all_calls) test_calls(core, p, want, got, check);
  return cooperative;
}

// More rows than a chunk of them: three chunks of an odd number of steps.
const Case kChunks = {"chunks of steps", {420, 41, 2, 3}};

template <class T>
void test_type() {
  std::uint32_t seed = 1001;
  for (const Case& c : kCases) {
    const Index states = c.shape.steps * c.shape.batch * c.shape.units;
    for (int i = 0; i < kSeeds; ++i) {
      for (const Kind& kind : kKinds) {
        // Kernels are wide where rows are dense and units a multiple.
        const bool dense = (seed / 2) % 2 == 0;
        test_problem(Problem<T>(c, kind, seed++, dense), "CUDA emulation",
                     states <= kMostStates);
      }
    }
  }
}

void test_chunks() {
  if (kThreads) return;
  for (const Kind& kind : kKinds)
    test_problem(Problem<float>(kChunks, kind, 1), "CUDA emulation", false);
}

// The persistent kernels, where they are asked for and take a call: of small
// sizes, since every thread is one of the process.
template <class T>
void test_persistent_type() {
  std::uint32_t seed = 2001;
  Index cooperative = 0;
  for (const Case& c : kCases) {
    if (c.shape.steps * c.shape.batch > (kThreads ? 20 : 60) ||
        c.shape.units > 50)
      continue;
    for (const Kind& kind : kKinds) {
      Problem<T> p(c, kind, seed++);
      p.has_dropout = false;
      cooperative += test_problem(p, "persistent CUDA emulation", false);
    }
  }
  CHECK_THAT(cooperative > 20, "only %d launches were cooperative",
             static_cast<int>(cooperative));
}

void test_persistent() {
  setenv("FUSED_RNN_CUDA_PERSISTENT", "1", 1);
  // A grid of one block, of several, and one whose shared memory is short.
  for (const cuda::CooperativeLimits& limits :
       {cuda::CooperativeLimits{1, 64, 64 << 10},
        cuda::CooperativeLimits{3, 16, 64 << 10},
        cuda::CooperativeLimits{4, 20, 5 << 10}}) {
    cuda::emulated_limits = limits;
    test_persistent_type<float>();
    if (kThreads) continue;
    if (limits.blocks == 1) {
      Problem<float> chunks(kChunks, kKinds[1], 1);
      chunks.has_dropout = false;
      test_problem(chunks, "persistent CUDA emulation", false);
    }
    if (limits.blocks != 3) continue;
    test_persistent_type<double>();
    test_persistent_type<Half>();
    test_persistent_type<BFloat16>();
  }
  unsetenv("FUSED_RNN_CUDA_PERSISTENT");
}

}  // namespace
}  // namespace test
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  test::test_type<float>();
  test::test_type<double>();
  test::test_type<Half>();
  test::test_type<BFloat16>();
  test::test_chunks();
  test::test_persistent();
  return test::report("cuda_test");
}
