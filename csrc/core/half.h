// Scalar conversions between stored values and the type they are computed in.
// Integer arithmetic only, so that they do not depend on the processor's
// handling of subnormal numbers. Round to nearest even, NaN stays NaN.
#ifndef FUSED_RNN_CORE_HALF_H_
#define FUSED_RNN_CORE_HALF_H_

#include "core/types.h"

namespace fused_rnn {
// Internal linkage: the objects compiled for one instruction set include this
// and must not offer the linker a copy for everyone.
namespace {

[[gnu::always_inline]] inline float float_of_bits(std::uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

[[gnu::always_inline]] inline std::uint32_t bits_of_float(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

[[gnu::always_inline]] inline float to_compute(float value) { return value; }
[[gnu::always_inline]] inline double to_compute(double value) { return value; }

[[gnu::always_inline]] inline float to_compute(BFloat16 value) {
  return float_of_bits(static_cast<std::uint32_t>(value.bits) << 16);
}

[[maybe_unused]] inline float to_compute(Half value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u)
                             << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  // The exponent's bias is 15 in half and 127 in float: 112 more.
  std::uint32_t bits = (magnitude << 13) + (112u << 23);
  if (magnitude >= 0x7c00u) {  // inf, NaN: all ones there too
    bits += 112u << 23;
  } else if (magnitude < 0x0400u) {  // zero, subnormal
    // (2^-14 + m·2^-24) - 2^-14, exact and of normal numbers only.
    bits = bits_of_float(float_of_bits(bits + (1u << 23)) -
                         float_of_bits(113u << 23));
  }
  return float_of_bits(bits | sign);
}

[[maybe_unused]] inline BFloat16 to_bfloat16(float value) {
  const std::uint32_t bits = bits_of_float(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};  // quiet NaN
  }
  const std::uint32_t odd = (bits >> 16) & 1u;
  return {static_cast<std::uint16_t>((bits + 0x7fffu + odd) >> 16)};
}

[[maybe_unused]] inline Half to_half(float value) {
  const std::uint32_t bits = bits_of_float(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half;
  if (magnitude > 0x7f800000u) {  // NaN: quiet, upper payload kept
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520 and more round to inf
    half = 0x7c00u;
  } else if (magnitude >= (113u << 23)) {  // 2^-14: normal in half
    const std::uint32_t odd = (magnitude >> 13) & 1u;
    half = (magnitude - (112u << 23) + 0xfffu + odd) >> 13;
  } else {
    // One unit in the last place of 1/2 is 2^-24, the smallest subnormal half:
    // the sum's low bits are the rounded value.
    half = bits_of_float(float_of_bits(magnitude) + 0.5f) - (126u << 23);
  }
  return {static_cast<std::uint16_t>(half | ((bits >> 16) & 0x8000u))};
}

template <class T>
struct Store {};
template <>
struct Store<float> {
  static float from(float value) { return value; }
};
template <>
struct Store<double> {
  static double from(double value) { return value; }
};
template <>
struct Store<Half> {
  static Half from(float value) { return to_half(value); }
};
template <>
struct Store<BFloat16> {
  static BFloat16 from(float value) { return to_bfloat16(value); }
};

// The stored value nearest to a computed one.
template <class T>
[[gnu::always_inline]] inline T from_compute(Compute<T> value) {
  return Store<T>::from(value);
}

}  // namespace
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_HALF_H_
