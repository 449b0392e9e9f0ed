// What the plain loops of naive_rnn.h are made of: activations, rows of values,
// products. Nothing is shared with the kernels but the conversions of half
// types, which have their own test.
#ifndef FUSED_RNN_TESTS_CORE_NAIVE_VALUES_H_
#define FUSED_RNN_TESTS_CORE_NAIVE_VALUES_H_

#include <cmath>
#include <vector>

#include "core/rnn.h"
#include "core/half.h"

namespace fused_rnn {
namespace naive {

template <class C>
C activate(Activation kind, C x) {
  switch (kind) {
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kSigmoid:
      return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
    case Activation::kRelu:
      return x < 0 ? 0 : x;
    case Activation::kLinear:
      return x;
    case Activation::kHardSigmoid: {
      const C y = x / 6 + C(0.5);
      return y < 0 ? 0 : y > 1 ? 1 : y;
    }
    case Activation::kSoftsign:
      return x / (1 + std::abs(x));
    case Activation::kElu:
      return x > 0 ? x : std::expm1(x);
  }
  return x;
}

// The derivative where the activation's result is y.
template <class C>
C slope(Activation kind, C y) {
  switch (kind) {
    case Activation::kTanh:
      return 1 - y * y;
    case Activation::kSigmoid:
      return y * (1 - y);
    case Activation::kRelu:
      return y > 0 ? 1 : 0;
    case Activation::kLinear:
      return 1;
    case Activation::kHardSigmoid:
      return y > 0 && y < 1 ? C(1) / 6 : C(0);
    case Activation::kSoftsign:
      return (1 - std::abs(y)) * (1 - std::abs(y));
    case Activation::kElu:
      return y > 0 ? 1 : y + 1;
  }
  return 1;
}

template <class C>
using Values = std::vector<C>;

template <class C, class T>
C read(const T* p, Index i) {
  return p ? static_cast<C>(to_compute(p[i])) : C(0);
}

template <class T, class C>
void write(T* p, Index i, C value) {
  if (p) p[i] = from_compute<T>(static_cast<Compute<T>>(value));
}

template <class T>
T* row_of(const Sequence<T>& s, Index t, Index b) {
  return s ? s.at(t, b) : nullptr;
}

template <class T>
T* row_of(const Rows<T>& rows, Index b) {
  return rows ? rows.data + b * rows.row : nullptr;
}

inline bool valid(const Mask& mask, Index t, Index b) {
  return !mask.data || mask.data[t * mask.step + b * mask.row] != 0;
}

// sum[j] += Σ_k v[k]·w[k, j]
template <class C, class T>
void add_product(Values<C>& sum, const Values<C>& v, const Rows<const T>& w) {
  for (std::size_t k = 0; k < v.size(); ++k) {
    const T* w_row = row_of(w, static_cast<Index>(k));
    for (std::size_t j = 0; j < sum.size(); ++j) {
      sum[j] += v[k] * read<C>(w_row, static_cast<Index>(j));
    }
  }
}

// Σ_j v[j]·w[k, j] for each of n rows k
template <class C, class T>
Values<C> times_transposed(const Values<C>& v, const Rows<const T>& w,
                           Index n) {
  Values<C> out(n, C(0));
  for (Index k = 0; k < n; ++k) {
    for (std::size_t j = 0; j < v.size(); ++j) {
      out[k] += v[j] * read<C>(row_of(w, k), static_cast<Index>(j));
    }
  }
  return out;
}

template <class C, class T>
Values<C> values_of(const T* p, Index n) {
  Values<C> out(n);
  for (Index i = 0; i < n; ++i) out[i] = read<C>(p, i);
  return out;
}

// v∘m, or v where there is no m.
template <class C, class T>
Values<C> dropped(Values<C> v, const T* m) {
  if (m) {
    for (std::size_t i = 0; i < v.size(); ++i) v[i] *= read<C>(m, i);
  }
  return v;
}

template <class C, class T>
void write_row(T* p, const Values<C>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) write(p, i, values[i]);
}

}  // namespace naive
}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CORE_NAIVE_VALUES_H_
