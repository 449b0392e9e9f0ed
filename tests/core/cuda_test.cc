// The core's CUDA path, emulated on the CPU, against plain loops: the cases and
// rules of rnn_test.cc; and what it enqueues.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/cuda/rnn_cuda.h"
#include "core/cuda/launch.h"
#include "core/rnn_problem.h"
#include "core/rnn_results.h"
#include "core/rnn_suite.h"
#include "core/naive_rnn.h"
#include "core/plain_product.h"

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

template <class T>
cuda::Error call(const RnnForward<T>& g, const cuda::Device& d, void* w) {
  return cuda::rnn_forward(g, d, w);
}
template <class T>
cuda::Error call(const RnnBackward<T>& g, const cuda::Device& d, void* w) {
  return cuda::rnn_backward(g, d, w);
}
template <class T>
cuda::Error call(const RnnInputGradient<T>& g, const cuda::Device& d, void* w) {
  return cuda::rnn_input_gradient(g, d, w);
}
template <class T>
cuda::Error call(const RnnWeightGradient<T>& g, const cuda::Device& d,
                 void* w) {
  return cuda::rnn_weight_gradient(g, d, w);
}

// Runs calls, on a stream that is told from others.
struct Emulation {
  template <class G>
  void operator()(const G& g) const {
    Index products = 0;
    const cuda::Device device{&products, plain_product, &products};
    const Scratch scratch(cuda::workspace_bytes(g));
    cuda::launches = {0, device.stream};
    const cuda::Error error = call(g, device, scratch.get());
    CHECK_THAT(!error, "%s: %s", error.where, error.what);
    CHECK_THAT(cuda::launches.stream == device.stream, "another stream");
  }
};

template <class T>
void test_problem(const Problem<T>& p, const char* name, bool all_calls) {
  const Results<T> want = naive_results(p);
  const Emulation core;
  const Results<T> got = core_results(core, p, want);
  const Run<T> check(p, name, 1);
  for_results(p, got, want, [&](const auto&... a) { check.close(a...); });
  if (all_calls) test_calls(core, p, want, got, check);
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

// Fails the n-th of all products.
struct Failing {
  Index left = 0;
  static cuda::Error product(void* context, const cuda::Product&) {
    Failing* const self = static_cast<Failing*>(context);
    if (self->left-- == 0) return {"product", "as asked"};
    return {};
  }
};

// Keras' layout: weights side by side, reserve of [T, B, values * H].
struct Plain {
  static constexpr Index T = 7, B = 3, I = 8, H = 16;
  RnnOptions options;
  bool has_dropout = false;  // one mask for all gates
  const int gates, values = kMaxReserve;
  std::vector<float> x = ramp(T * B * I), kernel = ramp(I * gates * H),
                     recurrent = ramp(H * gates * H);
  std::vector<float> first = std::vector<float>(B * H, 0.25f);
  std::vector<float> dropout = std::vector<float>(B * H, 2);
  std::vector<float> outputs = std::vector<float>(T * B * H);
  std::vector<float> reserve = std::vector<float>(T * B * values * H);
  std::vector<float> d_gates = std::vector<float>(T * B * kMaxGates * H);
  std::vector<float> d_first = std::vector<float>(B * H), d_cell = d_first;
  std::vector<float> d_kernel = kernel, d_recurrent = recurrent;

  explicit Plain(const Kind& kind)
      : options{kind.cell, kind.reset_after}, gates(gate_count(options)) {}

  // From -1/4 to 1/4, again and again.
  static std::vector<float> ramp(Index n) {
    std::vector<float> values(n);
    for (Index i = 0; i < n; ++i)
      values[i] = static_cast<float>(i * 7 % 17) / 32 - 0.25f;
    return values;
  }

  // What the arguments of all calls have.
  template <class G>
  void share(G& g) {
    g.shape = {T, B, I, H};
    g.options = options;
    g.h0 = {first.data(), H};
    for (int i = 0; has_dropout && i < gates; ++i)
      g.recurrent_dropout[i] = {dropout.data(), H};
  }
  RnnForward<float> forward() {
    RnnForward<float> g;
    share(g);
    g.x = {x.data(), B * I, I};
    if (has_cell_state(options)) g.c0 = g.h0;
    for (int i = 0; i < gates; ++i) {
      g.weights.kernel[i] = {kernel.data() + i * H, gates * H};
      g.weights.recurrent[i] = {recurrent.data() + i * H, gates * H};
    }
    g.outputs = {outputs.data(), B * H, H};
    for (int i = 0; i < reserve_count(options); ++i)
      g.reserve[i] = {reserve.data() + i * H, B * values * H, values * H};
    return g;
  }
  RnnBackward<float> backward() {
    const RnnForward<float> f = forward();
    RnnBackward<float> g;
    share(g);
    g.weights = f.weights;
    g.c0 = f.c0;
    g.outputs = {outputs.data(), B * H, H};
    for (int i = 0; i < reserve_count(options); ++i)
      g.reserve[i] = {reserve.data() + i * H, B * values * H, values * H};
    for (int i = 0; i < gate_gradient_count(options); ++i)
      g.d_gates[i] = {d_gates.data() + i * H, B * kMaxGates * H, kMaxGates * H};
    g.d_outputs = {outputs.data(), B * H, H};
    g.d_h0 = {d_first.data(), H};
    if (has_cell_state(options)) g.d_c0 = {d_cell.data(), H};
    return g;
  }
  RnnWeightGradient<float> weight_gradient() {
    const RnnBackward<float> b = backward();
    RnnWeightGradient<float> g;
    share(g);
    g.x = {x.data(), B * I, I};
    g.outputs = b.outputs;
    if (two_stages(options)) g.reset = b.reserve[kReset];
    for (int i = 0; i < gates; ++i) {
      g.d_kernel[i] = {d_kernel.data() + i * H, gates * H};
      g.d_recurrent[i] = {d_recurrent.data() + i * H, gates * H};
    }
    for (int i = 0; i < gate_gradient_count(options); ++i)
      g.d_gates[i] = {b.d_gates[i].data, b.d_gates[i].step, b.d_gates[i].row};
    return g;
  }
};

struct Count {
  Index kernels = 0, products = 0;
};
template <class G>
Count count(const G& g) {
  Count count;
  const cuda::Device device{nullptr, plain_product, &count.products};
  const Scratch scratch(cuda::workspace_bytes(g));
  cuda::launches = {};
  const cuda::Error error = call(g, device, scratch.get());
  CHECK_THAT(!error, "%s: %s", error.where, error.what);
  count.kernels = cuda::launches.count;
  return count;
}

// One product and one kernel a step, two and two for reset before. One mask of
// dropout for all gates adds but its product with the first state.
void test_launches() {
  const auto expect = [](const char* what, const Kind& kind, const Count& got,
                         Index kernels, Index products) {
    CHECK_THAT(got.kernels == kernels && got.products == products,
               "%s, %s: %d kernels, %d products, not %d and %d", kind.name,
               what, static_cast<int>(got.kernels),
               static_cast<int>(got.products), static_cast<int>(kernels),
               static_cast<int>(products));
  };
  for (const Kind& kind : kKinds) {
    for (bool dropout : {false, true}) {
      Plain plain(kind), naive(kind);
      plain.has_dropout = naive.has_dropout = dropout;
      const Index stages = two_stages(plain.options) ? 2 : 1;
      const Index a_step = stages * Plain::T;
      naive::rnn_forward(naive.forward());
      // And the product of the inputs.
      expect("forward", kind, count(plain.forward()), a_step + dropout,
             a_step + 1);
      for (std::size_t i = 0; i < plain.outputs.size(); ++i)
        CHECK_THAT(std::abs(plain.outputs[i] - naive.outputs[i]) < 1e-6f,
                   "%s: outputs[%d] = %g, not %g", kind.name,
                   static_cast<int>(i), static_cast<double>(plain.outputs[i]),
                   static_cast<double>(naive.outputs[i]));
      // And what the loop starts with, for each state, and ends with.
      expect("backward", kind, count(plain.backward()),
             a_step + 2 + has_cell_state(plain.options), a_step);
      // Ones for biases, and what each recurrent product read.
      const Index lefts = stages;
      // The candidate's d_gates of reset after lie elsewhere than its d_gh_c.
      const Index splits = kind.reset_after ? 1 : 0;
      expect("weight gradient", kind, count(plain.weight_gradient()),
             1 + lefts, 1 + lefts + splits);
    }
  }
}

// The persistent kernels, where they are asked for and take a call: of small
// sizes, since every thread is one of the process.
template <class T>
void test_persistent_type() {
  std::uint32_t seed = 2001;
  for (const Case& c : kCases) {
    if (c.shape.steps * c.shape.batch > (kThreads ? 20 : 60) ||
        c.shape.units > 50)
      continue;
    for (const Kind& kind : kKinds) {
      Problem<T> p(c, kind, seed++);
      p.has_dropout = false;
      test_problem(p, "persistent CUDA emulation", false);
    }
  }
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
    for (const Kind& kind : kKinds) {
      Plain plain(kind);
      const Count forward = count(plain.forward());
      // The counter, and all steps; and the product of the inputs.
      CHECK_THAT(forward.kernels == 2 && forward.products == 1,
                 "%d kernels, %d products", static_cast<int>(forward.kernels),
                 static_cast<int>(forward.products));
      // And what it starts with, for each state.
      const Index starts = has_cell_state(plain.options) ? 2 : 1;
      const Count backward = count(plain.backward());
      CHECK_THAT(backward.kernels == 2 + starts && backward.products == 0,
                 "%d kernels, %d products", static_cast<int>(backward.kernels),
                 static_cast<int>(backward.products));
    }
  }
  unsetenv("FUSED_RNN_CUDA_PERSISTENT");
}

// A failure ends the call at once and is handed on.
void test_failures() {
  Plain plain(kKinds[1]);
  const RnnForward<float> g = plain.forward();
  const Scratch scratch(cuda::workspace_bytes(g));
  for (Index fails = 0; fails <= Plain::T; ++fails) {
    Failing failing{fails};
    const cuda::Device device{nullptr, Failing::product, &failing};
    cuda::launches = {};
    const cuda::Error error = cuda::rnn_forward(g, device, scratch.get());
    CHECK_THAT(error && std::string(error.what) == "as asked", "no error");
    // The first product is that of the inputs.
    CHECK_THAT(cuda::launches.count == std::max<Index>(0, fails - 1),
               "%d kernels after a failure",
               static_cast<int>(cuda::launches.count));
  }
  RnnForward<float> large = g;
  large.shape.units = Index{1} << 30;
  const cuda::Error error = cuda::rnn_forward(large, {}, nullptr);
  CHECK_THAT(error && std::string(error.where) == "sizes", "no error");
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
  test::test_launches();
  test::test_persistent();
  test::test_failures();
  return test::report("cuda_test");
}
