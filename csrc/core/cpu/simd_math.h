// expm1, sigmoid and tanh of vectors, from one polynomial. Included by simd.h.
//
// exp(x) = 2^n · exp(r), n = round(x / ln 2), |r| <= ln 2 / 2, and
// exp(r) = 1 + r + r²·Q(r). Errors in units in the last place, over all finite
// arguments (float: every value; double: samples), are stated at each function
// and checked by tests/core/simd_test.cc.
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
  // ln 2 in two parts. With FMA the first is ln 2 rounded (off by 1.9e-9, a
  // lucky value); without, it has few enough bits that n·kLn2 is exact.
  static constexpr float kLn2 = kHasFma ? 0x1.62e43p-1f : 0x1.63p-1f;
  static constexpr float kLn2Low =
      kHasFma ? -0x1.05c61p-29f : -0x1.bd0106p-13f;
  // Remez exchange for the relative error of expm1(r), coefficients rounded
  // one by one, lowest first, the others fitted anew: 4.7e-10.
  static constexpr int kTerms = 6;
  static constexpr float kQ[kTerms] = {
      0x1p-1f,           0x1.555554p-3f,  0x1.5554eap-5f,
      0x1.1113acp-7f,    0x1.6d4c72p-10f, 0x1.9c59ecp-13f};
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
  // Interpolation at Chebyshev nodes, within a factor of two of the best:
  // relative error of expm1(r) 4.1e-17.
  static constexpr int kTerms = 10;
  static constexpr double kQ[kTerms] = {
      0x1.0000000000001p-1,  0x1.5555555555556p-3,  0x1.5555555553d63p-5,
      0x1.11111111109b3p-7,  0x1.6c16c1788bd9p-10,  0x1.a01a01a7c41d5p-13,
      0x1.a019b90d2ae7ap-16, 0x1.71de0dae63bb3p-19, 0x1.289185613a3d6p-22,
      0x1.af38a9b0ec855p-26};
};

template <class C>
FUSED_RNN_INLINE Vec<C> exp_q(Vec<C> r) {
  Vec<C> q = Exp<C>::kQ[Exp<C>::kTerms - 1];
#pragma GCC unroll 16
  for (int i = Exp<C>::kTerms - 2; i >= 0; --i) {
    q = fma(q, r, splat(Exp<C>::kQ[i]));
  }
  return q;
}

// x = n·ln 2 + r. The mantissa of `shifted` ends in n + bias as an integer.
template <class C>
struct Reduced {
  Vec<C> shifted;
  Vec<C> r;
};

template <class C>
constexpr C kRound = static_cast<C>(
    static_cast<std::int64_t>(3) << (Exp<C>::kMantissa - 1));

template <class C>
FUSED_RNN_INLINE Reduced<C> reduce(Vec<C> x, C log2e, int bias) {
  const C magic = kRound<C> + static_cast<C>(bias);
  const Vec<C> shifted = fma(x, splat(log2e), splat(magic));
  Vec<C> n = shifted - splat(magic);
  const C sign = log2e < 0 ? C(1) : C(-1);
  Vec<C> r = fma(n, splat(sign * Exp<C>::kLn2), x);
  r = fma(n, splat(sign * Exp<C>::kLn2Low), r);
  return {shifted, r};
}

// The power of two whose biased exponent ends `shifted`.
template <class C>
FUSED_RNN_INLINE Vec<C> power_of_two(Vec<C> shifted) {
  return of_bits<C>(bits_of(shifted) << Exp<C>::kMantissa);
}

// a / b for 0 <= a <= b, b normal and below 2^126.
#if defined(FUSED_RNN_AVX512)
FUSED_RNN_INLINE Vec<float> quotient(Vec<float> a, Vec<float> b) {
  // 14 bits, doubled by one step; three times as fast as the division.
  const Vec<float> inverse = (Vec<float>::Raw)_mm512_maskz_rcp14_ps(kAll16, b.raw);
  const Vec<float> q = a * inverse;
  const Vec<float> rest = (Vec<float>::Raw)_mm512_fnmadd_ps(q.raw, b.raw, a.raw);
  return fma(rest, inverse, q);
}
FUSED_RNN_INLINE Vec<double> quotient(Vec<double> a, Vec<double> b) {
  return a / b;
}
#else
template <class C>
FUSED_RNN_INLINE Vec<C> quotient(Vec<C> a, Vec<C> b) {
  return a / b;
}
#endif

// 1 / (1 + exp(-x)) = e / (e + 2^-n) with exp(x) = e·2^n.
template <class C>
FUSED_RNN_INLINE Vec<C> sigmoid(Vec<C> x) {
  // Below, the result rounds to zero; above, to one.
  constexpr C kLow = sizeof(C) == 4 ? C(-104) : C(-746);
  constexpr C kHigh = sizeof(C) == 4 ? C(18) : C(38);
  // Both terms are scaled by 2^-kScale, so that 2^-n stays finite for the
  // arguments whose results are subnormal.
  constexpr int kScale = sizeof(C) == 4 ? 32 : 100;
  const C scale = sizeof(C) == 4 ? C(0x1p-32) : C(0x1p-100);
  x = max(splat(kLow), min(splat(kHigh), x));
  const Reduced<C> p =
      reduce(x, -Exp<C>::kLog2e, Exp<C>::kBias - kScale);
  const Vec<C> power = power_of_two(p.shifted);  // 2^(-n - kScale)
  Vec<C> q = scale * Exp<C>::kQ[Exp<C>::kTerms - 1];
#pragma GCC unroll 16
  for (int i = Exp<C>::kTerms - 2; i >= 0; --i) {
    q = fma(q, p.r, splat(scale * Exp<C>::kQ[i]));
  }
  q = fma(q, p.r, splat(scale));
  q = fma(q, p.r, splat(scale));
  return quotient(q, q + power);
}

// expm1(2a) / (expm1(2a) + 2), a = |x|.
template <class C>
FUSED_RNN_INLINE Vec<C> tanh(Vec<C> x) {
  // From here on the result rounds to one, and so does the quotient.
  constexpr C kHigh = sizeof(C) == 4 ? C(10) : C(20);
  const Vec<C> a = min(splat(kHigh), abs(x));
  const Reduced<C> p = reduce(a + a, Exp<C>::kLog2e, Exp<C>::kBias);
  const Vec<C> power = power_of_two(p.shifted);
  const Vec<C> e = fma(p.r * p.r, exp_q(p.r), p.r);  // expm1(r)
  const Vec<C> m = fma(power, e, power - splat(C(1)));
  return with_sign(quotient(m, m + splat(C(2))), x);
}

// exp(x) - 1 for x <= 0; elsewhere finite and meaningless.
template <class C>
FUSED_RNN_INLINE Vec<C> expm1_negative(Vec<C> x) {
  constexpr C kLow = sizeof(C) == 4 ? C(-20) : C(-40);  // rounds to -1
  const Vec<C> a = max(splat(kLow), min(splat(C(0)), x));
  const Reduced<C> p = reduce(a, Exp<C>::kLog2e, Exp<C>::kBias);
  const Vec<C> power = power_of_two(p.shifted);
  const Vec<C> e = fma(p.r * p.r, exp_q(p.r), p.r);
  return fma(power, e, power - splat(C(1)));
}

}  // namespace
}  // namespace FUSED_RNN_ISA_NAME
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CPU_SIMD_MATH_H_
