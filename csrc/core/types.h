// Scalar types and views shared by every room.
#ifndef FUSED_RNN_CORE_TYPES_H_
#define FUSED_RNN_CORE_TYPES_H_

#include <cstddef>
#include <cstdint>

namespace fused_rnn {

using Index = std::int64_t;

// Half types are storage only: every kernel computes them in float. Same bits
// as Eigen::half, Eigen::bfloat16, numpy.float16 and ml_dtypes.bfloat16.
struct Half {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

// The type in which values stored as T are computed.
template <class T>
struct ComputeOf {
  using type = float;
};
template <>
struct ComputeOf<double> {
  using type = double;
};
template <class T>
using Compute = typename ComputeOf<T>::type;

// Rows [B, N]: element (b, j) at data[b * row + j].
template <class T>
struct Rows {
  T* data = nullptr;
  Index row = 0;
  explicit operator bool() const { return data != nullptr; }
};

// A sequence [T, B, N] in place: element (t, b, j) at
// data[t * step + b * row + j]. Time-major, batch-major and reversed time
// (negative step, data at the last step) are all just strides.
template <class T>
struct Sequence {
  T* data = nullptr;
  Index step = 0;
  Index row = 0;
  explicit operator bool() const { return data != nullptr; }
  T* at(Index t, Index b) const { return data + t * step + b * row; }
};

// The same steps, the last one first: of a Sequence or a Mask.
template <class Steps>
Steps reversed(Steps s, Index steps) {
  if (steps == 0) return s;
  s.data += (steps - 1) * s.step;
  s.step = -s.step;
  return s;
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_TYPES_H_
