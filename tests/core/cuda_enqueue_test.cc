// What calls of the CUDA path enqueue, in its emulation: how many products and
// kernels, which kernels, nothing after a failure, and no memory of its own.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <new>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/cuda/launch.h"
#include "core/cuda_calls.h"
#include "core/naive_rnn.h"
#include "core/rnn_problem.h"
#include "core/rnn_results.h"

namespace {
// Allocations of this thread.
thread_local long allocations = 0;
}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size + (size == 0))) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace fused_rnn {
namespace test {
namespace {

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
  Index kernels = 0, cooperative = 0, products = 0;
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
  count.cooperative = cuda::launches.cooperative;
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

// All steps in one launch, only where that is asked for and can be.
void test_choice() {
  const char* const variable = "FUSED_RNN_CUDA_PERSISTENT";
  const auto persistent = [](const RnnForward<float>& forward,
                             const RnnBackward<float>& backward) {
    const Count f = count(forward), b = count(backward);
    CHECK_THAT(f.cooperative == b.cooperative, "one direction alone");
    return f.cooperative == 1;
  };
  const cuda::CooperativeLimits usual = cuda::emulated_limits;
  for (const Kind& kind : kKinds) {
    Plain plain(kind);
    const RnnForward<float> forward = plain.forward();
    const RnnBackward<float> backward = plain.backward();
    for (const char* setting : {"", "0"}) {
      setenv(variable, setting, 1);
      CHECK_THAT(!persistent(forward, backward), "not asked for");
    }
    unsetenv(variable);
    CHECK_THAT(!persistent(forward, backward), "not asked for");

    setenv(variable, "1", 1);
    // The counter, and all steps; and the product of the inputs.
    const Count f = count(forward);
    CHECK_THAT(f.cooperative == 1 && f.kernels == 2 && f.products == 1,
               "%d kernels, %d products", static_cast<int>(f.kernels),
               static_cast<int>(f.products));
    // And what it starts with, for each state.
    const Index starts = has_cell_state(plain.options) ? 2 : 1;
    const Count b = count(backward);
    CHECK_THAT(b.cooperative == 1 && b.kernels == 2 + starts && b.products == 0,
               "%d kernels, %d products", static_cast<int>(b.kernels),
               static_cast<int>(b.products));

    // A device without cooperative launches, with too few threads for the units
    // of a block, with too little memory for their weights.
    for (const cuda::CooperativeLimits& limits :
         {cuda::CooperativeLimits{0, 16, 64 << 10},
          cuda::CooperativeLimits{1, Plain::H - 1, 64 << 10},
          cuda::CooperativeLimits{1, Plain::H,
                                  plain.recurrent.size() * sizeof(float)}}) {
      cuda::emulated_limits = limits;
      CHECK_THAT(!persistent(forward, backward), "no device for it");
    }
    cuda::emulated_limits = {Plain::H, 16, 4 << 10};
    CHECK_THAT(persistent(forward, backward), "a block for each unit");
    cuda::emulated_limits = usual;

    RnnForward<float> one_step = forward;
    RnnBackward<float> one_back = backward;
    one_step.shape.steps = one_back.shape.steps = 1;
    CHECK_THAT(!persistent(one_step, one_back), "one step");
    plain.has_dropout = true;
    CHECK_THAT(!persistent(plain.forward(), plain.backward()), "dropout");
    unsetenv(variable);
  }
}

// Counts products, which compute nothing, and fails one.
struct Products {
  static constexpr Index kMost = 100;
  Index failing = -1;
  Index count = 0;
  Index launches_before[kMost] = {};

  static cuda::Error product(void* context, const cuda::Product&) {
    Products* const self = static_cast<Products*>(context);
    if (self->count == self->failing || self->count == kMost)
      return {"product", "as asked"};
    self->launches_before[self->count++] = cuda::launches.count;
    return {};
  }
};

// Whatever fails, the call says so and enqueues nothing more; and it takes no
// memory but the caller's.
template <class G>
void test_call(const G& g) {
  const Scratch scratch(cuda::workspace_bytes(g));
  Products products;
  const cuda::Device device{&products, Products::product, &products};
  const auto run = [&](Index failing_product, Index failing_launch) {
    products.failing = failing_product;
    products.count = 0;
    cuda::launches = {};
    cuda::launches.stream = device.stream;
    cuda::launches.failing = failing_launch;
    return call(g, device, scratch.get());
  };
  const long before = allocations;
  const cuda::Error none = run(-1, -1);
  CHECK_THAT(allocations == before, "%ld allocations", allocations - before);
  CHECK_THAT(!none, "%s: %s", none.where, none.what);
  CHECK_THAT(cuda::launches.elsewhere == 0, "another stream");
  const Products all = products;
  const Index launches = cuda::launches.count;
  for (Index i = 0; i < all.count + launches; ++i) {
    const bool product = i < all.count;
    const Index failing = product ? i : i - all.count;
    const cuda::Error error = product ? run(failing, -1) : run(-1, failing);
    CHECK_THAT(error && std::string(error.what) == "as asked", "no error");
    Index products_before = failing, launches_before = failing;
    if (product)
      launches_before = all.launches_before[failing];
    else
      products_before =
          std::upper_bound(all.launches_before,
                           all.launches_before + all.count, failing) -
          all.launches_before;
    CHECK_THAT(products.count == products_before &&
                   cuda::launches.count == launches_before,
               "went on after a failure");
  }
}

template <class T>
void test_calls_of_type() {
  const Case small = {"small", {3, 2, 3, 8}};
  for (std::uint32_t seed = 1; seed <= 32; ++seed) {
    const Problem<T> p(small, kKinds[seed % std::size(kKinds)], seed,
                       seed % 3 == 0);
    const Results<T> r(p);
    test_call(p.forward(r));
    test_call(p.backward(r, r));
    test_call(p.input_gradient(r, r));
    RnnWeightGradient<T> w = p.weight_gradient(r);
    r.receive(w);
    test_call(w);
  }
}

// What there are no kernels for.
void test_refused() {
  Plain plain(kKinds[1]);
  RnnForward<float> large = plain.forward();
  large.shape.units = Index{1} << 30;
  const cuda::Error error = cuda::rnn_forward(large, {}, nullptr);
  CHECK_THAT(error && std::string(error.where) == "sizes", "no error");
}

}  // namespace
}  // namespace test
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  test::test_launches();
  test::test_choice();
  test::test_calls_of_type<float>();
  test::test_calls_of_type<Half>();
  test::test_refused();
  return test::report("cuda_enqueue_test");
}
