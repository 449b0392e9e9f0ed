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
#else
constexpr int kAccumulators = 12;
#endif

constexpr int max_vectors(int rows) {
  const int fit = kAccumulators / rows;
  return fit < kMaxVectors ? fit : kMaxVectors;
}

template <class C, int kRows, int kVectors, bool kPackedRows>
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
  const Index end = args.k;
  for (Index k = 0; k < end; ++k) {
    Vec<C> bv[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) bv[v] = load(b + v * kW);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const Vec<C> av = splat<C>(kPackedRows ? a[i] : a[i * a_row]);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sum[i][v] = fma(av, bv[v], sum[i][v]);
    }
    a += kPackedRows ? kRows : 1;
    b += b_k;
  }

  C* c = args.c;
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v)
      store(c + i * args.c_row + v * kW, sum[i][v]);
}

template <class C, bool kPackedRows, int kRows, int kVectors>
constexpr TileKernel<C> tile_if_fits() {
  if constexpr (kVectors <= max_vectors(kRows))
    return &tile<C, kRows, kVectors, kPackedRows>;
  else
    return nullptr;
}

template <class C, bool kPackedRows, int kRows>
void fill_tile_row(TileKernel<C> (&row)[kMaxVectors + 1]) {
  row[0] = nullptr;
  row[1] = tile_if_fits<C, kPackedRows, kRows, 1>();
  row[2] = tile_if_fits<C, kPackedRows, kRows, 2>();
  row[3] = tile_if_fits<C, kPackedRows, kRows, 3>();
  // Packed rows serve the big products only, whose panels are narrow.
  if constexpr (!kPackedRows) {
    row[4] = tile_if_fits<C, kPackedRows, kRows, 4>();
    row[5] = tile_if_fits<C, kPackedRows, kRows, 5>();
    row[6] = tile_if_fits<C, kPackedRows, kRows, 6>();
    row[7] = tile_if_fits<C, kPackedRows, kRows, 7>();
    row[8] = tile_if_fits<C, kPackedRows, kRows, 8>();
    row[9] = tile_if_fits<C, kPackedRows, kRows, 9>();
    row[10] = tile_if_fits<C, kPackedRows, kRows, 10>();
    row[11] = tile_if_fits<C, kPackedRows, kRows, 11>();
    row[12] = tile_if_fits<C, kPackedRows, kRows, 12>();
  }
}

}  // namespace
}  // namespace FUSED_RNN_ISA_NAME
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CPU_TILE_ISA_H_
