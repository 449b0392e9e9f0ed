// sigmoid, tanh and expm1 of vectors. Included by simd.h.
//
// Each function states its largest error in units in the last place of the
// result, over every finite float and over samples of double; NaN stays NaN,
// infinities give the limits, zeros their exact values. simd_test.cc checks it.
//
// exp(x) = 2^n·exp(r), n = round(x / ln 2), |r| <= ln 2 / 2, and there
// exp(r) = 1 + r + r²·Q(r).
#ifndef FUSED_RNN_CORE_CPU_SIMD_MATH_H_
#define FUSED_RNN_CORE_CPU_SIMD_MATH_H_

#include "core/cpu/simd.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA_NAME {
namespace {

template <class C>
struct Exp;

template <>
struct Exp<float> {
  static constexpr int kMantissa = 23;
  static constexpr int kBias = 127;
  static constexpr float kLog2e = 0x1.715476p+0f;
  // ln 2 in two parts. With FMA the first is ln 2 rounded; without, it has few
  // enough bits that n·kLn2 is exact.
  static constexpr float kLn2 = kHasFma ? 0x1.62e43p-1f : 0x1.63p-1f;
  static constexpr float kLn2Low = kHasFma ? -0x1.05c61p-29f : -0x1.bd0106p-13f;
  // Remez exchange, coefficients rounded one by one, lowest first, and the
  // others fitted anew. Relative error of exp(r) 2.1e-8 ...
  static constexpr float kExp[] = {0x1.fffffcp-2f, 0x1.55548cp-3f,
                                   0x1.555858p-5f, 0x1.124d5ep-7f,
                                   0x1.699444p-10f};
  // ... and of expm1(r) 4.7e-10.
  static constexpr float kExpm1[] = {0x1p-1f,        0x1.555554p-3f,
                                     0x1.5554eap-5f, 0x1.1113acp-7f,
                                     0x1.6d4c72p-10f, 0x1.9c59ecp-13f};
};

template <>
struct Exp<double> {
  static constexpr int kMantissa = 52;
  static constexpr int kBias = 1023;
  static constexpr double kLog2e = 0x1.71547652b82fep+0;
  static constexpr double kLn2 =
      kHasFma ? 0x1.62e42fefa39efp-1 : 0x1.62e42fefa38p-1;
  static constexpr double kLn2Low =
      kHasFma ? 0x1.abc9e3b39803fp-56 : 0x1.ef35793c7673p-45;
  // Interpolation at the Chebyshev nodes, within a factor of two of the best:
  // relative error of exp(r) 1.6e-17, of expm1(r) 4.1e-17.
  static constexpr double kExp[] = {
      0x1.0000000000001p-1,  0x1.5555555555556p-3,  0x1.5555555553d63p-5,
      0x1.11111111109b3p-7,  0x1.6c16c1788bd9p-10,  0x1.a01a01a7c41d5p-13,
      0x1.a019b90d2ae7ap-16, 0x1.71de0dae63bb3p-19, 0x1.289185613a3d6p-22,
      0x1.af38a9b0ec855p-26};
  static constexpr const double (&kExpm1)[10] = kExp;
};

// scale·Σ k[i]·x^i
template <class C, int kTerms>
FUSED_RNN_INLINE Vec<C> polynomial(const C (&k)[kTerms], Vec<C> x,
                                   C scale = 1) {
  Vec<C> sum = scale * k[kTerms - 1];
#pragma GCC unroll 16
  for (int i = kTerms - 2; i >= 0; --i) sum = fma(sum, x, splat(scale * k[i]));
  return sum;
}

// x = n·ln 2 + r. The mantissa of `shifted` ends in the integer ±n + bias.
template <class C>
struct Reduced {
  Vec<C> shifted;
  Vec<C> r;
};

// `sign` is the one of n in `shifted`. The low part of ln 2 counts where
// n·(error of the high part) does: 1.9e-9·n in float, 2.3e-17·n in double.
template <class C, bool kLow>
FUSED_RNN_INLINE Reduced<C> reduce(Vec<C> x, int sign, int bias) {
  // Adding 1.5·2^mantissa rounds to an integer.
  const C magic = static_cast<C>(
      (std::int64_t{3} << (Exp<C>::kMantissa - 1)) + bias);
  const C s = static_cast<C>(sign);
  const Vec<C> shifted = fma(x, splat(s * Exp<C>::kLog2e), splat(magic));
  const Vec<C> n = shifted - splat(magic);
  Vec<C> r = fma(n, splat(-s * Exp<C>::kLn2), x);
  if (kLow || !kHasFma) r = fma(n, splat(-s * Exp<C>::kLn2Low), r);
  return {shifted, r};
}

// The power of two whose biased exponent ends `shifted`.
template <class C>
FUSED_RNN_INLINE Vec<C> power_of_two(Vec<C> shifted) {
  return of_bits<C>(bits_of(shifted) << Exp<C>::kMantissa);
}

// a / b for b normal and below 2^126.
template <class C>
FUSED_RNN_INLINE Vec<C> quotient(Vec<C> a, Vec<C> b) {
#if defined(FUSED_RNN_AVX512)
  if constexpr (sizeof(C) == sizeof(float)) {
    // 14 bits, doubled by one Newton step: rounds as the division does in all
    // but a few cases, and the divider would be the bottleneck.
    const Vec<C> inverse =
        (typename Vec<C>::Raw)_mm512_maskz_rcp14_ps(kAll16, b.raw);
    const Vec<C> q = a * inverse;
    return fma(fma(-q, b, a), inverse, q);
  }
#endif
  return a / b;
}

// 1 / (1 + exp(-x)) = e / (e + 2^-n) with exp(x) = e·2^n.
// Float: 2.7 ulp for x >= -20, 4.5 below. Double: 2.2 ulp.
template <class C>
FUSED_RNN_INLINE Vec<C> sigmoid(Vec<C> x) {
  constexpr bool kFloat = sizeof(C) == sizeof(float);
  // Below, the result rounds to zero; above, to one.
  constexpr C kLow = kFloat ? -104 : -746;
  constexpr C kHigh = kFloat ? 18 : 38;
  // Both terms are scaled by 2^-kScale, so that 2^-n stays finite for the
  // arguments whose results are subnormal.
  constexpr int kScale = kFloat ? 32 : 100;
  constexpr C scale = kFloat ? C(0x1p-32) : C(0x1p-100);
  x = max(splat(kLow), min(splat(kHigh), x));
  const auto [shifted, r] =
      reduce<C, !kFloat>(x, -1, Exp<C>::kBias - kScale);
  Vec<C> e = polynomial(Exp<C>::kExp, r, scale);
  e = fma(e, r, splat(scale));
  e = fma(e, r, splat(scale));
  return quotient(e, e + power_of_two(shifted));
}

// x·P(x²)/Q(x²): a fourth of the instructions less than by exp.
// 3.2 ulp for |x| < 1, 5.2 above (6.2 without FMA).
FUSED_RNN_INLINE Vec<float> tanh(Vec<float> x) {
  constexpr float kHigh = 9.02f;  // the result rounds to one
  // Least squares for the relative error, reweighted until it was level (2e-8),
  // coefficients rounded as above; 2.7e-8.
  constexpr float kP[] = {0x1p+0f, 0x1.1213d2p-3f, 0x1.ca6c34p-9f,
                          0x1.5a3e94p-16f, 0x1.cc1296p-27f};
  constexpr float kQ[] = {0x1p+0f, 0x1.de5f36p-2f, 0x1.a81702p-6f,
                          0x1.58d668p-12f, 0x1.a2537ep-21f};
  const Vec<float> t = min(splat(kHigh * kHigh), x * x);
  const Vec<float> y = x * quotient(polynomial(kP, t), polynomial(kQ, t));
  // For larger arguments, and where rounding has led beyond.
  return max(splat(-1.0f), min(splat(1.0f), y));
}

// expm1(r) as a part of the functions below.
template <class C>
FUSED_RNN_INLINE Vec<C> expm1_reduced(Vec<C> r) {
  return fma(r * r, polynomial(Exp<C>::kExpm1, r), r);
}

// expm1(2a) / (expm1(2a) + 2), a = |x|. 2.4 ulp.
FUSED_RNN_INLINE Vec<double> tanh(Vec<double> x) {
  constexpr double kHigh = 20;  // the quotient rounds to one
  const Vec<double> a = min(splat(kHigh), abs(x));
  const auto [shifted, r] = reduce<double, true>(a + a, 1, Exp<double>::kBias);
  const Vec<double> power = power_of_two(shifted);
  const Vec<double> m = fma(power, expm1_reduced(r), power - splat(1.0));
  return with_sign(quotient(m, m + splat(2.0)), x);
}

// exp(x) - 1 for x <= 0, and 0 for x > 0. 1.2 ulp.
template <class C>
FUSED_RNN_INLINE Vec<C> expm1_negative(Vec<C> x) {
  constexpr C kLow = sizeof(C) == sizeof(float) ? -20 : -40;  // rounds to -1
  const Vec<C> a = max(splat(kLow), min(splat(C(0)), x));
  const auto [shifted, r] = reduce<C, true>(a, 1, Exp<C>::kBias);
  const Vec<C> power = power_of_two(shifted);
  return fma(power, expm1_reduced(r), power - splat(C(1)));
}

}  // namespace
}  // namespace FUSED_RNN_ISA_NAME
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CPU_SIMD_MATH_H_
