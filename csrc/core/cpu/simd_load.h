// Loads and stores of vectors, whole and partial, converting half types.
// Included by simd.h. No address needs alignment.
#ifndef FUSED_RNN_CORE_CPU_SIMD_LOAD_H_
#define FUSED_RNN_CORE_CPU_SIMD_LOAD_H_

#include "core/cpu/simd.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA_NAME {
namespace {

constexpr int kFloats = kWidth<float>;
// What half types are moved in: as many 16-bit values as a vector has floats.
typedef std::uint16_t Halves __attribute__((vector_size(kVectorBytes / 2)));
typedef std::uint32_t Words __attribute__((vector_size(kVectorBytes)));

template <class R, class T>
FUSED_RNN_INLINE R load_raw(const T* p) {
  R raw;
  __builtin_memcpy(&raw, p, sizeof(raw));
  return raw;
}

template <class R, class T>
FUSED_RNN_INLINE void store_raw(T* p, R raw) {
  __builtin_memcpy(p, &raw, sizeof(raw));
}

FUSED_RNN_INLINE Words if_then_else(Words mask, Words a, Words b) {
  return (mask & a) | (~mask & b);
}

FUSED_RNN_INLINE Vec<float> widen_bfloat16(Halves h) {
  const Words wide = __builtin_convertvector(h, Words) << 16;
  return (Vec<float>::Raw)wide;
}

FUSED_RNN_INLINE Halves narrow_bfloat16(Vec<float> v) {
  const Words bits = (Words)v.raw;
  const Words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const Words quiet = (bits >> 16) | 0x40u;
  const Words is_nan = (Words)(v.raw != v.raw);
  return __builtin_convertvector(if_then_else(is_nan, quiet, rounded), Halves);
}

#if defined(FUSED_RNN_AVX512)
FUSED_RNN_INLINE Vec<float> widen_half(Halves h) {
  return (Vec<float>::Raw)_mm512_maskz_cvtph_ps(kAll16, (__m256i)h);
}
FUSED_RNN_INLINE Halves narrow_half(Vec<float> v) {
  return (Halves)_mm512_maskz_cvtps_ph(kAll16, v.raw,
                                       _MM_FROUND_TO_NEAREST_INT);
}
#elif defined(FUSED_RNN_AVX2)
FUSED_RNN_INLINE Vec<float> widen_half(Halves h) {
  return (Vec<float>::Raw)_mm256_cvtph_ps((__m128i)h);
}
FUSED_RNN_INLINE Halves narrow_half(Vec<float> v) {
  return (Halves)_mm256_cvtps_ph(v.raw, _MM_FROUND_TO_NEAREST_INT);
}
#else
// As to_compute(Half) and to_half(float), branch by branch, then selected.
FUSED_RNN_INLINE Vec<float> widen_half(Halves h) {
  const Words all = __builtin_convertvector(h, Words);
  const Words magnitude = all & 0x7fffu;
  const Words sign = (all & 0x8000u) << 16;
  const Words normal = (magnitude << 13) + (112u << 23);
  const Words special = normal + (112u << 23);
  const Vec<float> shifted = (Vec<float>::Raw)(normal + (1u << 23));
  const Words small = (Words)(shifted - splat(0x1p-14f)).raw;
  Words bits = if_then_else((Words)(magnitude >= 0x7c00u), special, normal);
  bits = if_then_else((Words)(magnitude < 0x0400u), small, bits);
  return (Vec<float>::Raw)(bits | sign);
}
FUSED_RNN_INLINE Halves narrow_half(Vec<float> v) {
  const Words bits = (Words)v.raw;
  const Words magnitude = bits & 0x7fffffffu;
  const Words odd = (magnitude >> 13) & 1u;
  const Words normal = (magnitude - (112u << 23) + 0xfffu + odd) >> 13;
  const Words small =
      (Words)(abs(v) + splat(0.5f)).raw - (126u << 23);
  const Words nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  const Words inf = 0x7c00u - Words{};
  Words half = if_then_else((Words)(magnitude < (113u << 23)), small, normal);
  half = if_then_else((Words)(magnitude >= 0x477ff000u), inf, half);
  half = if_then_else((Words)(magnitude > 0x7f800000u), nan, half);
  half |= (bits >> 16) & 0x8000u;
  return __builtin_convertvector(half, Halves);
}
#endif

FUSED_RNN_INLINE Vec<float> load(const float* p) {
  return load_raw<Vec<float>::Raw>(p);
}
FUSED_RNN_INLINE Vec<double> load(const double* p) {
  return load_raw<Vec<double>::Raw>(p);
}
FUSED_RNN_INLINE Vec<float> load(const Half* p) {
  return widen_half(load_raw<Halves>(p));
}
FUSED_RNN_INLINE Vec<float> load(const BFloat16* p) {
  return widen_bfloat16(load_raw<Halves>(p));
}

FUSED_RNN_INLINE void store(float* p, Vec<float> v) { store_raw(p, v.raw); }
FUSED_RNN_INLINE void store(double* p, Vec<double> v) { store_raw(p, v.raw); }
FUSED_RNN_INLINE void store(Half* p, Vec<float> v) {
  store_raw(p, narrow_half(v));
}
FUSED_RNN_INLINE void store(BFloat16* p, Vec<float> v) {
  store_raw(p, narrow_bfloat16(v));
}

// The first n elements, n below the width; the rest is zero, or left alone.
#if defined(FUSED_RNN_AVX512)
FUSED_RNN_INLINE Vec<float> load_partial(const float* p, int n) {
  const __mmask16 mask = static_cast<__mmask16>((1u << n) - 1u);
  return (Vec<float>::Raw)_mm512_maskz_loadu_ps(mask, p);
}
FUSED_RNN_INLINE Vec<double> load_partial(const double* p, int n) {
  const __mmask8 mask = static_cast<__mmask8>((1u << n) - 1u);
  return (Vec<double>::Raw)_mm512_maskz_loadu_pd(mask, p);
}
FUSED_RNN_INLINE Halves load_partial_halves(const void* p, int n) {
  const __mmask16 mask = static_cast<__mmask16>((1u << n) - 1u);
  return (Halves)_mm256_maskz_loadu_epi16(mask, p);
}
FUSED_RNN_INLINE void store_partial(float* p, Vec<float> v, int n) {
  const __mmask16 mask = static_cast<__mmask16>((1u << n) - 1u);
  _mm512_mask_storeu_ps(p, mask, v.raw);
}
FUSED_RNN_INLINE void store_partial(double* p, Vec<double> v, int n) {
  const __mmask8 mask = static_cast<__mmask8>((1u << n) - 1u);
  _mm512_mask_storeu_pd(p, mask, v.raw);
}
FUSED_RNN_INLINE void store_partial_halves(void* p, Halves h, int n) {
  const __mmask16 mask = static_cast<__mmask16>((1u << n) - 1u);
  _mm256_mask_storeu_epi16(p, mask, (__m256i)h);
}
#else
template <class R, class T>
FUSED_RNN_INLINE R load_first(const T* p, int n) {
  T elements[sizeof(R) / sizeof(T)] = {};
  for (int i = 0; i < n; ++i) elements[i] = p[i];
  return load_raw<R>(elements);
}
template <class R, class T>
FUSED_RNN_INLINE void store_first(T* p, R raw, int n) {
  T elements[sizeof(R) / sizeof(T)];
  store_raw(elements, raw);
  for (int i = 0; i < n; ++i) p[i] = elements[i];
}
FUSED_RNN_INLINE Halves load_partial_halves(const void* p, int n) {
  return load_first<Halves>(static_cast<const std::uint16_t*>(p), n);
}
FUSED_RNN_INLINE void store_partial_halves(void* p, Halves h, int n) {
  store_first(static_cast<std::uint16_t*>(p), h, n);
}
#if defined(FUSED_RNN_AVX2)
FUSED_RNN_INLINE __m256i first_words(int n) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), index);
}
FUSED_RNN_INLINE Vec<float> load_partial(const float* p, int n) {
  return (Vec<float>::Raw)_mm256_maskload_ps(p, first_words(n));
}
FUSED_RNN_INLINE Vec<double> load_partial(const double* p, int n) {
  const __m256i mask = _mm256_cvtepi32_epi64(
      _mm256_castsi256_si128(first_words(n)));
  return (Vec<double>::Raw)_mm256_maskload_pd(p, mask);
}
FUSED_RNN_INLINE void store_partial(float* p, Vec<float> v, int n) {
  _mm256_maskstore_ps(p, first_words(n), v.raw);
}
FUSED_RNN_INLINE void store_partial(double* p, Vec<double> v, int n) {
  const __m256i mask = _mm256_cvtepi32_epi64(
      _mm256_castsi256_si128(first_words(n)));
  _mm256_maskstore_pd(p, mask, v.raw);
}
#else
FUSED_RNN_INLINE Vec<float> load_partial(const float* p, int n) {
  return load_first<Vec<float>::Raw>(p, n);
}
FUSED_RNN_INLINE Vec<double> load_partial(const double* p, int n) {
  return load_first<Vec<double>::Raw>(p, n);
}
FUSED_RNN_INLINE void store_partial(float* p, Vec<float> v, int n) {
  store_first(p, v.raw, n);
}
FUSED_RNN_INLINE void store_partial(double* p, Vec<double> v, int n) {
  store_first(p, v.raw, n);
}
#endif
#endif

FUSED_RNN_INLINE Vec<float> load_partial(const Half* p, int n) {
  return widen_half(load_partial_halves(p, n));
}
FUSED_RNN_INLINE Vec<float> load_partial(const BFloat16* p, int n) {
  return widen_bfloat16(load_partial_halves(p, n));
}
FUSED_RNN_INLINE void store_partial(Half* p, Vec<float> v, int n) {
  store_partial_halves(p, narrow_half(v), n);
}
FUSED_RNN_INLINE void store_partial(BFloat16* p, Vec<float> v, int n) {
  store_partial_halves(p, narrow_bfloat16(v), n);
}

}  // namespace
}  // namespace FUSED_RNN_ISA_NAME
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CPU_SIMD_LOAD_H_
