// The register block: every product of the core is made of these. Included by
// kernels_isa.cc only, once for each instruction set.
#ifndef FUSED_RNN_CORE_CPU_TILE_ISA_H_
#define FUSED_RNN_CORE_CPU_TILE_ISA_H_

#include "core/cpu/kernels.h"
#include "core/cpu/simd.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA_NAME {
namespace {

// Vector registers that may hold sums: 32 registers leave 24 beside the loads
// of b, 16 leave 12.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kAccumulators = 24;
constexpr int kBlockRows = 8;
#else
constexpr int kAccumulators = 12;
constexpr int kBlockRows = 4;
#endif
static_assert(kBlockRows <= kMaxRows);

constexpr int max_vectors(int rows) {
  const int fit = kAccumulators / rows;
  return fit < kMaxVectors ? fit : kMaxVectors;
}

template <class C, int kRows, int kVectors, bool kTransposed>
void tile(const TileArgs<C>& args) {
  constexpr int kW = kWidth<C>;
  Vec<C> sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v)
      sum[i][v] = load(args.init + i * args.init_row + v * kW);

  const C* a = args.a;
  const C* b = args.b;
  const Index a_row = args.a_row;
  const Index b_k = args.b_k;
  const auto add_product = [&]() __attribute__((always_inline)) {
    Vec<C> bv[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) bv[v] = load(b + v * kW);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const Vec<C> av = splat<C>(kTransposed ? a[i] : a[i * a_row]);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sum[i][v] = fma(av, bv[v], sum[i][v]);
    }
    a += kTransposed ? a_row : 1;
    b += b_k;
  };
  const char* ahead = args.ahead;
  const Index ahead_step = args.ahead_step;
  if constexpr (kTransposed) {
    // Spread over the depth: all at once would fill the line buffers.
    for (Index i = 0, k = 0; i < kRows; ++i) {
      for (int v = 0; v < kVectors; ++v) prefetch_to_write(ahead + v * kVectorBytes);
      ahead += ahead_step;
      for (const Index end = args.k * (i + 1) / kRows; k < end; ++k)
        add_product();
    }
  } else {
    // Few rows take their panel as fast as it comes: nothing to be hidden.
    constexpr bool kFetches = kRows > kBlockRows / 2;
    for (Index k = 0; k < args.k; ++k) {
      if constexpr (kFetches) prefetch_to_l2(ahead);
      ahead += ahead_step;
      add_product();
    }
  }

  C* c = args.c;
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v)
      store(c + i * args.c_row + v * kW, sum[i][v]);
}

// Transposed left sides come with the big products only: narrow panels.
constexpr int kMaxTransposedVectors = 3;

template <class C, bool kTransposed, int kRows, int kVectors>
constexpr TileKernel<C> tile_if_fits() {
  constexpr bool kFits =
      kVectors > 0 && kVectors <= max_vectors(kRows) &&
      (!kTransposed || kVectors <= kMaxTransposedVectors);
  if constexpr (kFits)
    return &tile<C, kRows, kVectors, kTransposed>;
  else
    return nullptr;
}

template <class C, bool kTransposed, int kRows = kMaxRows,
          int kVectors = kMaxVectors>
void fill_tiles(TileKernel<C> (&table)[kMaxRows + 1][kMaxVectors + 1]) {
  table[kRows][kVectors] = tile_if_fits<C, kTransposed, kRows, kVectors>();
  if constexpr (kVectors > 0)
    fill_tiles<C, kTransposed, kRows, kVectors - 1>(table);
  else if constexpr (kRows > 1)
    fill_tiles<C, kTransposed, kRows - 1, kMaxVectors>(table);
}

}  // namespace
}  // namespace FUSED_RNN_ISA_NAME
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CPU_TILE_ISA_H_
