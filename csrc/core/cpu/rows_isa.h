// Moving rows between the caller's arrays and scratch: packing, conversion,
// scaling. Included by the kernels of an instruction set only.
#ifndef FUSED_RNN_CORE_CPU_ROWS_ISA_H_
#define FUSED_RNN_CORE_CPU_ROWS_ISA_H_

#include <utility>  // integer_sequence, a type only

#include "core/cpu/kernels.h"
#include "core/cpu/simd.h"
#include "core/cpu/span_isa.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA_NAME {
namespace {

template <class T>
void pack(const T* src, Index src_row, Index k, Index n, Compute<T>* dst,
          Index padded) {
  using C = Compute<T>;
  for (Index i = 0; i < k; ++i) {
    const T* from = src + i * src_row;
    C* to = dst + i * padded;
    span<C>(n, [&](Index j, auto at) { store(to + j, at.get(from + j)); });
    for (Index j = (n + kWidth<C> - 1) / kWidth<C> * kWidth<C>; j < padded;
         j += kWidth<C>)
      store(to + j, splat<C>(0));
  }
}

// Lane l of the low result takes from the first register where l's kHalf bit
// is clear, else from the second at l - kHalf; the high result takes the rest.
template <class C, int kHalf, int... kLane>
[[gnu::always_inline]] inline void exchange_halves(
    Vec<C>& first, Vec<C>& second, std::integer_sequence<int, kLane...>) {
  constexpr int kW = kWidth<C>;
  const typename Vec<C>::Raw a = first.raw;
  const typename Vec<C>::Raw b = second.raw;
#if defined(__clang__)
  first.raw = __builtin_shufflevector(
      a, b, ((kLane & kHalf) ? kW + kLane - kHalf : kLane)...);
  second.raw = __builtin_shufflevector(
      a, b, ((kLane & kHalf) ? kW + kLane : kLane + kHalf)...);
#else
  using Bits = typename Lanes<C>::Bits;
  first.raw = __builtin_shuffle(
      a, b, Bits{((kLane & kHalf) ? kW + kLane - kHalf : kLane)...});
  second.raw = __builtin_shuffle(
      a, b, Bits{((kLane & kHalf) ? kW + kLane : kLane + kHalf)...});
#endif
}

// Transposes kWidth rows of kWidth elements held in registers by exchanging
// ever smaller blocks (Eklundh's method): log2(kWidth) stages.
template <class C, int kHalf = kWidth<C> / 2>
[[gnu::always_inline]] inline void transpose(Vec<C> (&m)[kWidth<C>]) {
  if constexpr (kHalf > 0) {
#pragma GCC unroll 16
    for (int i = 0; i < kWidth<C>; ++i)
      if (!(i & kHalf))
        exchange_halves<C, kHalf>(
            m[i], m[i + kHalf],
            std::make_integer_sequence<int, kWidth<C>>{});
    transpose<C, kHalf / 2>(m);
  }
}

template <class T>
void pack_transposed(const T* src, Index src_row, Index k, Index n,
                     Compute<T>* dst, Index padded) {
  using C = Compute<T>;
  constexpr int kW = kWidth<C>;
  for (Index j0 = 0; j0 < padded; j0 += kW) {
    const Index columns = n - j0 < kW ? n - j0 : kW;
    for (Index k0 = 0; k0 < k; k0 += kW) {
      const Index depth = k - k0 < kW ? k - k0 : kW;
      Vec<C> m[kW];
#pragma GCC unroll 64
      for (int j = 0; j < kW; ++j) {
        const T* from = src + (j0 + j) * src_row + k0;
        if (j >= columns)
          m[j] = splat<C>(0);
        else if (depth == kW)
          m[j] = load(from);
        else
          m[j] = load_partial(from, static_cast<int>(depth));
      }
      transpose<C>(m);
      C* to = dst + k0 * padded + j0;
#pragma GCC unroll 64
      for (int i = 0; i < kW; ++i)
        if (i < depth) store(to + i * padded, m[i]);
    }
  }
}

template <class T>
void read_rows(Rows<const T> src, const BlockRows& rows, Index n,
               Rows<Compute<T>> dst) {
  using C = Compute<T>;
  for (Index i = 0; i < rows.count; ++i) {
    C* to = row_at(dst, i);
    const T* from = row_or_null(src, rows.batch(i));
    span<C>(n, [&](Index j, auto at) {
      store(to + j, from ? at.get(from + j) : splat<C>(0));
    });
  }
}

template <class T>
void read_groups(Rows<const T> src, Rows<const T> times,
                 Rows<const T> times_too, Index rows, Index n, Compute<T>* dst,
                 Index group, Index group_stride) {
  using C = Compute<T>;
  for (Index i = 0; i < rows; ++i) {
    const T* from = row_or_null(src, i);
    const T* by = row_or_null(times, i);
    const T* by_too = row_or_null(times_too, i);
    C* to = dst + i * group;
    span<C>(n, [&](Index j, auto at) {
      Vec<C> value = from ? at.get(from + j) : splat<C>(0);
      if (by) value = value * at.get(by + j);
      if (by_too) value = value * at.get(by_too + j);
      store(to + j / group * group_stride + j % group, value);
    });
  }
}

template <class T>
void write_rows(Rows<const Compute<T>> src, const BlockRows& rows, Index n,
                Rows<T> dst) {
  using C = Compute<T>;
  for (Index i = 0; i < rows.count; ++i) {
    const C* from = row_at(src, i);
    T* to = row_at(dst, rows.batch(i));
    span<C>(n, [&](Index j, auto at) { at.put(to + j, at.get(from + j)); });
  }
}

template <class T>
void add_rows(Rows<const T> src, const BlockRows& rows, Index n,
              Rows<Compute<T>> dst) {
  using C = Compute<T>;
  for_each_row(rows, [&](Index i, Index b) {
    C* to = row_at(dst, i);
    const T* from = row_at(src, b);
    span<C>(n, [&](Index j, auto at) {
      store(to + j, load(to + j) + at.get(from + j));
    });
  });
}

// dst = m∘src, or with kAdd dst += m∘src. src may be the caller's: no padding.
template <bool kAdd, class T>
void scale(Rows<const Compute<T>> src, Rows<const T> m, const BlockRows& rows,
           Index n, Rows<Compute<T>> dst) {
  using C = Compute<T>;
  for_each_row(rows, [&](Index i, Index b) {
    const C* from = row_at(src, i);
    const T* factor = row_at(m, b);
    C* to = row_at(dst, i);
    span<C>(n, [&](Index j, auto at) {
      const Vec<C> a = at.get(from + j);
      const Vec<C> by = at.get(factor + j);
      if constexpr (kAdd)
        store(to + j, fma(a, by, load(to + j)));
      else
        store(to + j, a * by);
    });
  });
}

template <class T>
void scale_rows(Rows<const Compute<T>> src, Rows<const T> m,
                const BlockRows& rows, Index n, Rows<Compute<T>> dst) {
  scale<false>(src, m, rows, n, dst);
}
template <class T>
void add_scaled_rows(Rows<const Compute<T>> src, Rows<const T> m,
                     const BlockRows& rows, Index n, Rows<Compute<T>> dst) {
  scale<true>(src, m, rows, n, dst);
}

}  // namespace
}  // namespace FUSED_RNN_ISA_NAME
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CPU_ROWS_ISA_H_
