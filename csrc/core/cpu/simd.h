// The vector value type of the instruction set being compiled.
//
// Included by objects compiled once an instruction set. Such an object may
// hold no weak symbol: the linker would keep one copy for everyone, perhaps
// the AVX-512 one. So all of this has internal linkage, and neither this file
// nor its users include headers whose templates get instantiated.
#ifndef FUSED_RNN_CORE_CPU_SIMD_H_
#define FUSED_RNN_CORE_CPU_SIMD_H_

#include "core/half.h"
#include "core/types.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#ifndef FUSED_RNN_ISA_NAME
#define FUSED_RNN_ISA_NAME isa_baseline
#endif

#define FUSED_RNN_INLINE inline __attribute__((always_inline))

// GCC's own __AVX512F__ also covers processors without the byte, word and
// short vector instructions; the AVX-512 object is compiled for x86-64-v4.
#if defined(__AVX512F__) && defined(__AVX512BW__) && \
    defined(__AVX512DQ__) && defined(__AVX512VL__)
#define FUSED_RNN_AVX512 1
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define FUSED_RNN_AVX2 1
#endif

namespace fused_rnn {
namespace FUSED_RNN_ISA_NAME {
namespace {

#if defined(FUSED_RNN_AVX512)
constexpr int kVectorBytes = 64;
#elif defined(FUSED_RNN_AVX2)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

// Whether fma() rounds once.
#if defined(FUSED_RNN_AVX512) || defined(FUSED_RNN_AVX2) || \
    defined(__aarch64__)
constexpr bool kHasFma = true;
#else
constexpr bool kHasFma = false;
#endif

// Elements of type C in a vector.
template <class C>
constexpr int kWidth = kVectorBytes / static_cast<int>(sizeof(C));

template <class C>
struct Lanes;
template <>
struct Lanes<float> {
  typedef float Raw __attribute__((vector_size(kVectorBytes)));
  typedef std::int32_t Int;
  typedef std::int32_t Bits __attribute__((vector_size(kVectorBytes)));
};
template <>
struct Lanes<double> {
  typedef double Raw __attribute__((vector_size(kVectorBytes)));
  typedef std::int64_t Int;
  typedef std::int64_t Bits __attribute__((vector_size(kVectorBytes)));
};

// A vector of kWidth<C> values. A class, not the bare extension type, so that
// the cell formulas find their functions by argument-dependent lookup.
template <class C>
struct Vec {
  using Raw = typename Lanes<C>::Raw;
  Raw raw;

  Vec() = default;
  FUSED_RNN_INLINE Vec(Raw value) : raw(value) {}
  FUSED_RNN_INLINE Vec(C value) : raw(value - Raw{}) {}

  friend FUSED_RNN_INLINE Vec operator+(Vec a, Vec b) { return a.raw + b.raw; }
  friend FUSED_RNN_INLINE Vec operator-(Vec a, Vec b) { return a.raw - b.raw; }
  friend FUSED_RNN_INLINE Vec operator*(Vec a, Vec b) { return a.raw * b.raw; }
  friend FUSED_RNN_INLINE Vec operator/(Vec a, Vec b) { return a.raw / b.raw; }
  friend FUSED_RNN_INLINE Vec operator-(Vec a) { return -a.raw; }
  FUSED_RNN_INLINE Vec& operator+=(Vec b) { return *this = *this + b; }
  FUSED_RNN_INLINE Vec& operator-=(Vec b) { return *this = *this - b; }
  FUSED_RNN_INLINE Vec& operator*=(Vec b) { return *this = *this * b; }
};

// The result of a comparison: all ones where true.
template <class C>
struct VecMask {
  typename Lanes<C>::Bits bits;
  friend FUSED_RNN_INLINE VecMask operator&(VecMask a, VecMask b) {
    return {a.bits & b.bits};
  }
};

template <class C>
FUSED_RNN_INLINE VecMask<C> operator<(Vec<C> a, Vec<C> b) {
  return {a.raw < b.raw};
}
template <class C>
FUSED_RNN_INLINE VecMask<C> operator>(Vec<C> a, Vec<C> b) {
  return {a.raw > b.raw};
}
template <class C>
FUSED_RNN_INLINE Vec<C> select(VecMask<C> mask, Vec<C> a, Vec<C> b) {
  return mask.bits ? a.raw : b.raw;
}

template <class C>
FUSED_RNN_INLINE Vec<C> splat(C value) {
  return Vec<C>(value);
}

template <class C>
FUSED_RNN_INLINE typename Lanes<C>::Bits bits_of(Vec<C> v) {
  return (typename Lanes<C>::Bits)v.raw;
}
template <class C>
FUSED_RNN_INLINE Vec<C> of_bits(typename Lanes<C>::Bits bits) {
  return (typename Lanes<C>::Raw)bits;
}

template <class C>
constexpr typename Lanes<C>::Int kSignBit =
    static_cast<typename Lanes<C>::Int>(1) << (8 * sizeof(C) - 1);

template <class C>
FUSED_RNN_INLINE Vec<C> abs(Vec<C> v) {
  return of_bits<C>(bits_of(v) & ~kSignBit<C>);
}

FUSED_RNN_INLINE void prefetch(const void* p) { __builtin_prefetch(p, 0, 3); }
FUSED_RNN_INLINE void prefetch_to_write(const void* p) {
  __builtin_prefetch(p, 1, 3);
}
FUSED_RNN_INLINE void prefetch_to_l2(const void* p) {
  __builtin_prefetch(p, 0, 2);
}

// a·b + c, rounded once where the processor can.
// min and max return b where either is NaN.
#if defined(FUSED_RNN_AVX512)
// Zero-masked forms with every element kept: the same instructions, without
// the uninitialised operand of the plain ones that GCC 12 warns about.
constexpr __mmask16 kAll16 = 0xffff;
constexpr __mmask8 kAll8 = 0xff;
FUSED_RNN_INLINE Vec<float> fma(Vec<float> a, Vec<float> b, Vec<float> c) {
  return (Vec<float>::Raw)_mm512_fmadd_ps(a.raw, b.raw, c.raw);
}
FUSED_RNN_INLINE Vec<double> fma(Vec<double> a, Vec<double> b, Vec<double> c) {
  return (Vec<double>::Raw)_mm512_fmadd_pd(a.raw, b.raw, c.raw);
}
FUSED_RNN_INLINE Vec<float> min(Vec<float> a, Vec<float> b) {
  return (Vec<float>::Raw)_mm512_maskz_min_ps(kAll16, a.raw, b.raw);
}
FUSED_RNN_INLINE Vec<double> min(Vec<double> a, Vec<double> b) {
  return (Vec<double>::Raw)_mm512_maskz_min_pd(kAll8, a.raw, b.raw);
}
FUSED_RNN_INLINE Vec<float> max(Vec<float> a, Vec<float> b) {
  return (Vec<float>::Raw)_mm512_maskz_max_ps(kAll16, a.raw, b.raw);
}
FUSED_RNN_INLINE Vec<double> max(Vec<double> a, Vec<double> b) {
  return (Vec<double>::Raw)_mm512_maskz_max_pd(kAll8, a.raw, b.raw);
}
#elif defined(FUSED_RNN_AVX2)
FUSED_RNN_INLINE Vec<float> fma(Vec<float> a, Vec<float> b, Vec<float> c) {
  return (Vec<float>::Raw)_mm256_fmadd_ps(a.raw, b.raw, c.raw);
}
FUSED_RNN_INLINE Vec<double> fma(Vec<double> a, Vec<double> b, Vec<double> c) {
  return (Vec<double>::Raw)_mm256_fmadd_pd(a.raw, b.raw, c.raw);
}
FUSED_RNN_INLINE Vec<float> min(Vec<float> a, Vec<float> b) {
  return (Vec<float>::Raw)_mm256_min_ps(a.raw, b.raw);
}
FUSED_RNN_INLINE Vec<double> min(Vec<double> a, Vec<double> b) {
  return (Vec<double>::Raw)_mm256_min_pd(a.raw, b.raw);
}
FUSED_RNN_INLINE Vec<float> max(Vec<float> a, Vec<float> b) {
  return (Vec<float>::Raw)_mm256_max_ps(a.raw, b.raw);
}
FUSED_RNN_INLINE Vec<double> max(Vec<double> a, Vec<double> b) {
  return (Vec<double>::Raw)_mm256_max_pd(a.raw, b.raw);
}
#else
#if defined(__aarch64__)
FUSED_RNN_INLINE Vec<float> fma(Vec<float> a, Vec<float> b, Vec<float> c) {
  return (Vec<float>::Raw)vfmaq_f32((float32x4_t)c.raw, (float32x4_t)a.raw,
                                    (float32x4_t)b.raw);
}
FUSED_RNN_INLINE Vec<double> fma(Vec<double> a, Vec<double> b, Vec<double> c) {
  return (Vec<double>::Raw)vfmaq_f64((float64x2_t)c.raw, (float64x2_t)a.raw,
                                     (float64x2_t)b.raw);
}
#else
template <class C>
FUSED_RNN_INLINE Vec<C> fma(Vec<C> a, Vec<C> b, Vec<C> c) {
  return a.raw * b.raw + c.raw;
}
#endif
template <class C>
FUSED_RNN_INLINE Vec<C> min(Vec<C> a, Vec<C> b) {
  return a.raw < b.raw ? a.raw : b.raw;
}
template <class C>
FUSED_RNN_INLINE Vec<C> max(Vec<C> a, Vec<C> b) {
  return a.raw > b.raw ? a.raw : b.raw;
}
#endif

// copysign(magnitude, sign) for a magnitude that is not negative.
template <class C>
FUSED_RNN_INLINE Vec<C> with_sign(Vec<C> magnitude, Vec<C> sign) {
  return of_bits<C>(bits_of(magnitude) | (bits_of(sign) & kSignBit<C>));
}

}  // namespace
}  // namespace FUSED_RNN_ISA_NAME
}  // namespace fused_rnn

#include "core/cpu/simd_load.h"
#include "core/cpu/simd_math.h"

#endif  // FUSED_RNN_CORE_CPU_SIMD_H_
