// Compiled once for each instruction set, like kernels_isa.cc.
#include "core/cpu/probe_kernels.h"
#include "core/cpu/simd.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA_NAME {
namespace {

using V = Vec<float>;

// Independent chains: more than latency times units of any processor, and few
// enough for 16 registers.
constexpr int kChains = 12;
static_assert(kChains * kWidth<float> <= kProbeSums, "sums would overflow");

Index multiply_add(Index rounds, float* sums) {
  V sum[kChains];
#pragma GCC unroll 16
  for (int i = 0; i < kChains; ++i) sum[i] = splat(static_cast<float>(i));
  // They tend to 2: neither denormal nor infinite.
  V half = splat(0.5f), one = splat(1.0f);
  for (Index round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) sum[i] = fma(sum[i], half, one);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kChains; ++i) store(sums + i * kWidth<float>, sum[i]);
  return rounds * kChains * kWidth<float>;
}

void read(const float* values, Index n, float* sums) {
  constexpr int kSums = 8;
  constexpr Index kStep = kSums * kWidth<float>;
  static_assert(kProbeSums % kStep == 0, "a rest would be left out");
  V sum[kSums];
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) sum[i] = splat(0.0f);
  for (Index j = 0; j < n; j += kStep) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i)
      sum[i] += load(values + j + i * kWidth<float>);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) store(sums + i * kWidth<float>, sum[i]);
}

}  // namespace

ProbeKernels probe_kernels() { return {&multiply_add, &read}; }

}  // namespace FUSED_RNN_ISA_NAME
}  // namespace fused_rnn
