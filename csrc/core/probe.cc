#include "core/probe.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/cpu/probe_kernels.h"
#include "core/isa.h"

namespace fused_rnn {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kWindowSeconds = 1e-3;

ProbeKernels kernels_in_use() {
  const std::string isa = active_isa();
#if defined(__x86_64__)
  if (isa == "avx512") return isa_avx512::probe_kernels();
  if (isa == "avx2") return isa_avx2::probe_kernels();
#endif
  return isa_baseline::probe_kernels();
}

// What all threads together do a second. make_work, called on each thread,
// gives a function that does a little and tells how much.
using Work = std::function<double()>;
double rate(int threads, double seconds,
            const std::function<Work()>& make_work) {
  std::atomic<int> ready{0};
  std::vector<double> rates(static_cast<std::size_t>(threads), 0.0);
  const auto run = [&](double& result) {
    const Work work = make_work();
    work();  // Fills the caches and wakes the vector units.
    ++ready;
    while (ready < threads) std::this_thread::yield();
    const auto start = Clock::now();
    // The best of short windows: what a neighbour took is no limit of the
    // processor.
    double window_start = 0, done = 0, spent = 0;
    while (spent < seconds) {
      done += work();
      spent = std::chrono::duration<double>(Clock::now() - start).count();
      if (spent - window_start < kWindowSeconds && spent < seconds) continue;
      result = std::max(result, done / (spent - window_start));
      window_start = spent;
      done = 0;
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i)
    others.emplace_back([&run, &rates, i] {
      run(rates[static_cast<std::size_t>(i)]);
    });
  run(rates[0]);
  double sum = rates[0];
  for (int i = 1; i < threads; ++i) {
    others[static_cast<std::size_t>(i - 1)].join();
    sum += rates[static_cast<std::size_t>(i)];
  }
  return sum;
}

}  // namespace

double probe_multiply_adds(int threads, double seconds) {
  const ProbeKernels kernels = kernels_in_use();
  return rate(threads, seconds, [&kernels]() -> Work {
    return [&kernels, sums = std::vector<float>(kProbeSums)]() mutable {
      constexpr Index kRounds = 2000;
      return 2.0 * static_cast<double>(
                       kernels.multiply_add(kRounds, sums.data()));
    };
  });
}

double probe_reads(std::size_t bytes, int threads, double seconds) {
  const ProbeKernels kernels = kernels_in_use();
  const Index block = kProbeSums;
  const Index values =
      (static_cast<Index>(bytes / sizeof(float)) + block - 1) / block * block;
  return rate(threads, seconds, [&kernels, values]() -> Work {
    // Enough passes that reading the clock costs nothing.
    const Index passes = 1 + (Index{1} << 16) / (values + 1);
    return [&kernels, values, passes,
            data = std::vector<float>(static_cast<std::size_t>(values), 1.0f),
            sums = std::vector<float>(kProbeSums)]() mutable {
      for (Index i = 0; i < passes; ++i)
        kernels.read(data.data(), values, sums.data());
      return static_cast<double>(passes * values) * sizeof(float);
    };
  });
}

}  // namespace fused_rnn
