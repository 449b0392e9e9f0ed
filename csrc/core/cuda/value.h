// The value type of the kernels for cell_math.h: N neighbouring units of a row,
// so that each access is one of up to 16 bytes.
#ifndef FUSED_RNN_CORE_CUDA_VALUE_H_
#define FUSED_RNN_CORE_CUDA_VALUE_H_

#include <cmath>

#include "core/cell_math.h"
#include "core/cuda/launch.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#else
#include "core/half.h"
#endif

namespace fused_rnn {
namespace cuda {

#if defined(__CUDACC__)
FUSED_RNN_DEVICE float to_compute(float value) { return value; }
FUSED_RNN_DEVICE double to_compute(double value) { return value; }
FUSED_RNN_DEVICE float to_compute(Half value) {
  return __half2float(__ushort_as_half(value.bits));
}
FUSED_RNN_DEVICE float to_compute(BFloat16 value) {
  return __bfloat162float(__ushort_as_bfloat16(value.bits));
}
FUSED_RNN_DEVICE void store_as(float value, float* to) { *to = value; }
FUSED_RNN_DEVICE void store_as(double value, double* to) { *to = value; }
FUSED_RNN_DEVICE void store_as(float value, Half* to) {
  to->bits = __half_as_ushort(__float2half_rn(value));
}
FUSED_RNN_DEVICE void store_as(float value, BFloat16* to) {
  to->bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
}
#else
using fused_rnn::to_compute;
template <class T>
void store_as(Compute<T> value, T* to) {
  *to = from_compute<T>(value);
}
#endif

template <class C, int N>
struct Value {
  C lane[N];

  Value() = default;
  FUSED_RNN_HOST_DEVICE explicit Value(double value) {
    for (int i = 0; i < N; ++i) lane[i] = static_cast<C>(value);
  }
};

template <int N>
struct Choice {
  bool lane[N];
};

// NAME(PARAMETERS): EXPRESSION of lane i.
#define FUSED_RNN_LANES(RESULT, NAME, PARAMETERS, EXPRESSION) \
  template <class C, int N>                                   \
  FUSED_RNN_HOST_DEVICE RESULT NAME PARAMETERS {              \
    RESULT result;                                            \
    for (int i = 0; i < N; ++i) result.lane[i] = EXPRESSION;  \
    return result;                                            \
  }
#define FUSED_RNN_1 (Value<C, N> a)
#define FUSED_RNN_2 (Value<C, N> a, Value<C, N> b)
#define FUSED_RNN_3 (Value<C, N> a, Value<C, N> b, Value<C, N> c)
#define FUSED_RNN_V Value<C, N>

// clang-format off
FUSED_RNN_LANES(FUSED_RNN_V, operator+, FUSED_RNN_2, a.lane[i] + b.lane[i])
FUSED_RNN_LANES(FUSED_RNN_V, operator-, FUSED_RNN_2, a.lane[i] - b.lane[i])
FUSED_RNN_LANES(FUSED_RNN_V, operator*, FUSED_RNN_2, a.lane[i] * b.lane[i])
FUSED_RNN_LANES(FUSED_RNN_V, operator/, FUSED_RNN_2, a.lane[i] / b.lane[i])
FUSED_RNN_LANES(FUSED_RNN_V, operator-, FUSED_RNN_1, -a.lane[i])
FUSED_RNN_LANES(Choice<N>, operator<, FUSED_RNN_2, a.lane[i] < b.lane[i])
FUSED_RNN_LANES(Choice<N>, operator>, FUSED_RNN_2, a.lane[i] > b.lane[i])
FUSED_RNN_LANES(FUSED_RNN_V, fma, FUSED_RNN_3,
                std::fma(a.lane[i], b.lane[i], c.lane[i]))
FUSED_RNN_LANES(FUSED_RNN_V, abs, FUSED_RNN_1, std::abs(a.lane[i]))
FUSED_RNN_LANES(FUSED_RNN_V, tanh, FUSED_RNN_1, std::tanh(a.lane[i]))
// exp overflows to infinity where the quotient is zero.
FUSED_RNN_LANES(FUSED_RNN_V, sigmoid, FUSED_RNN_1,
                C(1) / (C(1) + std::exp(-a.lane[i])))
// Of positive numbers, whose result is not used, it would overflow.
FUSED_RNN_LANES(FUSED_RNN_V, expm1_negative, FUSED_RNN_1,
                a.lane[i] > C(0) ? C(0) : std::expm1(a.lane[i]))
// clang-format on

template <class C, int N>
FUSED_RNN_HOST_DEVICE Value<C, N> select(Choice<N> which, Value<C, N> yes,
                                         Value<C, N> no) {
  Value<C, N> result;
  for (int i = 0; i < N; ++i)
    result.lane[i] = which.lane[i] ? yes.lane[i] : no.lane[i];
  return result;
}

#undef FUSED_RNN_LANES
#undef FUSED_RNN_1
#undef FUSED_RNN_2
#undef FUSED_RNN_3
#undef FUSED_RNN_V

// N elements in memory. The caller knows that they are aligned as a whole.
template <class T, int N>
struct alignas(N * sizeof(T)) Pack {
  T lane[N];
};

template <int N, class T>
FUSED_RNN_DEVICE Value<Compute<T>, N> load(const T* p) {
  const Pack<T, N> pack = *reinterpret_cast<const Pack<T, N>*>(p);
  Value<Compute<T>, N> value;
  for (int i = 0; i < N; ++i) value.lane[i] = to_compute(pack.lane[i]);
  return value;
}
template <int N, class T>
FUSED_RNN_DEVICE Value<Compute<T>, N> load_or_zero(const T* p) {
  return p ? load<N>(p) : Value<Compute<T>, N>(0);
}
template <int N, class T>
FUSED_RNN_DEVICE void store(T* p, Value<Compute<T>, N> value) {
  Pack<T, N> pack;
  for (int i = 0; i < N; ++i) store_as(value.lane[i], &pack.lane[i]);
  *reinterpret_cast<Pack<T, N>*>(p) = pack;
}
template <int N, class T>
FUSED_RNN_DEVICE void store_if(T* p, Value<Compute<T>, N> value) {
  if (p) store<N>(p, value);
}

}  // namespace cuda
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CUDA_VALUE_H_
