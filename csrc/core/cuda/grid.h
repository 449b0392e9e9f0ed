// How rows and units are spread over a grid.
#ifndef FUSED_RNN_CORE_CUDA_GRID_H_
#define FUSED_RNN_CORE_CUDA_GRID_H_

#include "core/cuda/launch.h"
#include "core/cuda/value.h"

namespace fused_rnn {
namespace cuda {

// A warp lies along a row, so that its accesses are contiguous.
constexpr unsigned kColumns = 32;
constexpr unsigned kRows = 4;
// The limit of gridDim.y; rows beyond are a further turn of the loop.
constexpr unsigned kMaxGridRows = 65535;

inline unsigned blocks(Index n, unsigned size) {
  return static_cast<unsigned>((n + size - 1) / size);
}

// For body(row, column) of each thread: columns are groups of N neighbours.
inline dim3 grid_of(Index rows, Index width, int lanes) {
  const unsigned down = blocks(rows, kRows);
  dim3 grid;
  grid.x = blocks(width, kColumns * static_cast<unsigned>(lanes));
  grid.y = down < kMaxGridRows ? down : kMaxGridRows;
  return grid;
}
inline dim3 block_of_rows() {
  dim3 block;
  block.x = kColumns;
  block.y = kRows;
  return block;
}

template <int N, class Body>
FUSED_RNN_DEVICE void for_each_value(Index rows, int width, Body body) {
  const int j = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * N;
  if (j >= width) return;
  const Index stride = static_cast<Index>(gridDim.y) * blockDim.y;
  for (Index i = static_cast<Index>(blockIdx.y) * blockDim.y + threadIdx.y;
       i < rows; i += stride)
    body(opaque(i), j);
}

template <class T>
FUSED_RNN_DEVICE T* row_at(const Rows<T>& rows, Index i, Index j) {
  return rows.data + i * rows.row + j;
}
template <class T>
FUSED_RNN_DEVICE T* row_or_null(const Rows<T>& rows, Index i, Index j) {
  return rows.data ? row_at(rows, i, j) : nullptr;
}

}  // namespace cuda
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CUDA_GRID_H_
