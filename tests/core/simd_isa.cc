// Compiled once an instruction set.
#include "core/cpu/simd.h"
#include "core/simd_table.h"

namespace fused_rnn {
namespace FUSED_RNN_ISA_NAME {
namespace {

template <class C>
constexpr test::MathTable<C> math() {
  return {kWidth<C>,
          [](const C* x, C* y) { store(y, sigmoid(load(x))); },
          [](const C* x, C* y) { store(y, tanh(load(x))); },
          [](const C* x, C* y) { store(y, expm1_negative(load(x))); },
          [](const C* a, const C* b, C* y) { store(y, min(load(a), load(b))); },
          [](const C* a, const C* b, C* y) {
            store(y, max(load(a), load(b)));
          }};
}

template <class T>
constexpr test::LoadTable<T> loads() {
  using C = Compute<T>;
  return {kWidth<C>,
          [](const T* p, C* y) { store(y, load(p)); },
          [](T* p, const C* x) { store(p, load(x)); },
          [](const T* p, C* y, int n) { store(y, load_partial(p, n)); },
          [](T* p, const C* x, int n) { store_partial(p, load(x), n); }};
}

}  // namespace

const test::SimdTable simd_table = {
    kHasFma,         math<float>(),  math<double>(),   loads<float>(),
    loads<double>(), loads<Half>(),  loads<BFloat16>()};

}  // namespace FUSED_RNN_ISA_NAME
}  // namespace fused_rnn
