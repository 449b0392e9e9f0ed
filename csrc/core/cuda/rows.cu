// Copies of rows: conversion, order, masks.
#include "core/cuda/grid.h"
#include "core/cuda/kernels.h"
#include "core/cuda/value.h"

namespace fused_rnn {
namespace cuda {
namespace {

FUSED_RNN_DEVICE bool valid(const Mask& mask, Index t, Index b) {
  return !mask.data || mask.data[t * mask.step + b * mask.row] != 0;
}

template <class T>
FUSED_RNN_DEVICE const T* row_of(const Sequence<const T>& s, Index t, Index b) {
  return s.data ? s.data + t * s.step + b * s.row : nullptr;
}

template <class T, class To>
FUSED_RNN_KERNEL(kColumns* kRows, 8) gather(Gather<T, To> g) {
  using V = Value<Compute<T>, 1>;
  const Index rows = static_cast<Index>(g.steps) * g.batch;
  for_each_value<1>(rows, g.width, [&](Index i, int j) {
    const Index t = g.step + i / g.batch;
    const Index b = i % g.batch;
    V value(0);
    if (valid(g.mask, t, b)) {
      Index from = t;
      if (g.shifted) from = g.previous ? g.previous[t * g.batch + b] : t - 1;
      const T* const row =
          from >= 0 ? row_of(g.from, from, b) : row_or_null(g.first, b, 0);
      value = row ? load<1>(row + j) : V(g.otherwise);
      if (g.scale.data) value = value * load<1>(row_of(g.scale, t, b) + j);
      if (g.row_scale.data) value = value * load<1>(row_at(g.row_scale, b, j));
    }
    store<1>(row_at(g.to, i, j), value);
  });
}

template <class T>
FUSED_RNN_KERNEL(kColumns* kRows, 8) scatter(Scatter<T> s) {
  using V = Value<Compute<T>, 1>;
  const Index rows = static_cast<Index>(s.steps) * s.batch;
  for_each_value<1>(rows, s.width, [&](Index i, int j) {
    const Index t = s.step + i / s.batch;
    const Index b = i % s.batch;
    V value(0);
    if (valid(s.mask, t, b)) value = load_or_zero<1>(row_or_null(s.from, i, j));
    store<1>(s.to.data + t * s.to.step + b * s.to.row + j, value);
  });
}

constexpr unsigned kPreviousThreads = 128;

FUSED_RNN_KERNEL(kPreviousThreads, 8) previous_valid(PreviousValid p) {
  const Index b = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (b >= p.batch) return;
  int last = -1;
  for (int t = 0; t < p.steps; ++t) {
    p.previous[static_cast<Index>(t) * p.batch + b] = last;
    if (valid(p.mask, t, b)) last = t;
  }
}

}  // namespace

template <class T, class To>
Error launch_gather(const Gather<T, To>& g, void* stream) {
  const Index rows = static_cast<Index>(g.steps) * g.batch;
  if (rows == 0 || g.width == 0) return {};
  return launch("gather", gather<T, To>, grid_of(rows, g.width, 1),
                block_of_rows(), stream, g);
}

template <class T>
Error launch_scatter(const Scatter<T>& s, void* stream) {
  const Index rows = static_cast<Index>(s.steps) * s.batch;
  if (rows == 0 || s.width == 0) return {};
  return launch("scatter", scatter<T>, grid_of(rows, s.width, 1),
                block_of_rows(), stream, s);
}

Error launch_previous_valid(const PreviousValid& p, void* stream) {
  dim3 grid, block;
  grid.x = blocks(p.batch, kPreviousThreads);
  block.x = kPreviousThreads;
  return launch("previous_valid", previous_valid, grid, block, stream, p);
}

template Error launch_gather(const Gather<float, float>&, void*);
template Error launch_gather(const Gather<double, double>&, void*);
template Error launch_gather(const Gather<Half, Half>&, void*);
template Error launch_gather(const Gather<BFloat16, BFloat16>&, void*);
template Error launch_gather(const Gather<Half, float>&, void*);
template Error launch_gather(const Gather<BFloat16, float>&, void*);
template Error launch_scatter(const Scatter<float>&, void*);
template Error launch_scatter(const Scatter<double>&, void*);
template Error launch_scatter(const Scatter<Half>&, void*);
template Error launch_scatter(const Scatter<BFloat16>&, void*);

}  // namespace cuda
}  // namespace fused_rnn
