// The matrix product of core/cuda/rnn_cuda.h by plain loops, for its emulation.
#ifndef FUSED_RNN_TESTS_CORE_PLAIN_PRODUCT_H_
#define FUSED_RNN_TESTS_CORE_PLAIN_PRODUCT_H_

#include <vector>

#include "core/cuda/rnn_cuda.h"
#include "core/half.h"

namespace fused_rnn {
namespace test {

template <class E>
void multiply(const cuda::Product& p) {
  using C = Compute<E>;
  const auto element = [](const void* data, bool transposed, Index row, Index i,
                          Index j) {
    return to_compute(static_cast<const E*>(
        data)[transposed ? j * row + i : i * row + j]);
  };
  std::vector<C> sum(p.n);
  for (Index i = 0; i < p.m; ++i) {
    C* const c = static_cast<C*>(p.c) + i * p.c_row;
    for (Index j = 0; j < p.n; ++j) sum[j] = p.accumulate ? c[j] : C(0);
    for (Index k = 0; k < p.k; ++k) {
      const C a = element(p.a, p.transpose_a, p.a_row, i, k);
      for (Index j = 0; j < p.n; ++j)
        sum[j] += a * element(p.b, p.transpose_b, p.b_row, k, j);
    }
    for (Index j = 0; j < p.n; ++j) c[j] = sum[j];
  }
}

// `context` counts the calls. Asks of its arguments what a BLAS does.
inline cuda::Error plain_product(void* context, const cuda::Product& p) {
  ++*static_cast<Index*>(context);
  if (p.m <= 0 || p.n <= 0 || p.k <= 0) return {"plain_product", "size"};
  if (p.a_row < (p.transpose_a ? p.m : p.k) ||
      p.b_row < (p.transpose_b ? p.k : p.n) || p.c_row < p.n)
    return {"plain_product", "length of a row"};
  switch (p.type) {
    case cuda::Element::kFloat32:
      multiply<float>(p);
      break;
    case cuda::Element::kFloat64:
      multiply<double>(p);
      break;
    case cuda::Element::kFloat16:
      multiply<Half>(p);
      break;
    case cuda::Element::kBFloat16:
      multiply<BFloat16>(p);
      break;
  }
  return {};
}

}  // namespace test
}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CORE_PLAIN_PRODUCT_H_
