// A row of any width as whole vectors and one partial one. Included by the
// kernels of an instruction set only.
#ifndef FUSED_RNN_CORE_CPU_SPAN_ISA_H_
#define FUSED_RNN_CORE_CPU_SPAN_ISA_H_

#include "core/cpu/kernels.h"
#include "core/cpu/simd.h"
#include "core/types.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA_NAME {
namespace {

// How the caller's arrays are read and written at a place of the row.
struct Whole {
  template <class T>
  static inline auto get(const T* p) {
    return load(p);
  }
  template <class T, class V>
  static inline void put(T* p, V value) {
    store(p, value);
  }
};

struct Partial {
  int n;
  template <class T>
  inline auto get(const T* p) const {
    return load_partial(p, n);
  }
  template <class T, class V>
  inline void put(T* p, V value) const {
    store_partial(p, value, n);
  }
};

// body(j, access) for each vector of C of a row of n elements.
template <class C, class Body>
[[gnu::always_inline]] inline void span(Index n, Body body) {
  constexpr int kW = kWidth<C>;
  Index j = 0;
  for (; j + kW <= n; j += kW) body(j, Whole{});
  if (j < n) body(j, Partial{static_cast<int>(n - j)});
}

// body(i, b) for each row i of a block that is not masked, batch row b.
template <class Body>
[[gnu::always_inline]] inline void for_each_row(const BlockRows& rows,
                                                Body body) {
  for (Index i = 0; i < rows.count; ++i)
    if (!rows.skip(i)) body(i, rows.batch(i));
}

// The address of batch row b of an optional array.
template <class T>
inline T* row_or_null(Rows<T> rows, Index b) {
  return rows.data ? rows.data + b * rows.row : nullptr;
}
template <class T>
inline T* row_at(Rows<T> rows, Index i) {
  return rows.data + i * rows.row;
}

}  // namespace
}  // namespace FUSED_RNN_ISA_NAME
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CPU_SPAN_ISA_H_
