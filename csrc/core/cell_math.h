// The formulas of the cells, forward and backward, on one value each.
//
// V is a value type: constructible from a number, with + - * / < > and
// select, abs, fma, sigmoid, tanh and expm1_negative in its own namespace,
// where argument-dependent lookup finds them (core/cpu/simd.h has them for
// vectors). Gradients are written as in core/rnn.h: d_z is the gradient of z,
// d_z̄ that of what the activation is applied to.
#ifndef FUSED_RNN_CORE_CELL_MATH_H_
#define FUSED_RNN_CORE_CELL_MATH_H_

#include "core/rnn.h"

#if defined(__CUDACC__)
#define FUSED_RNN_HOST_DEVICE __host__ __device__ inline
#else
#define FUSED_RNN_HOST_DEVICE inline __attribute__((always_inline))
#endif

namespace fused_rnn {

template <class V>
FUSED_RNN_HOST_DEVICE V activate(Activation kind, V x) {
  switch (kind) {
    case Activation::kTanh:
      return tanh(x);
    case Activation::kSigmoid:
      return sigmoid(x);
    case Activation::kRelu:
      return select(x < V(0), V(0), x);  // NaN stays NaN
    case Activation::kLinear:
      return x;
    case Activation::kHardSigmoid: {
      const V y = fma(x, V(1.0 / 6), V(0.5));
      return select(y < V(0), V(0), select(y > V(1), V(1), y));
    }
    case Activation::kSoftsign:
      return x / (V(1) + abs(x));
    case Activation::kElu:
      return select(x > V(0), x, expm1_negative(x));
  }
  return x;
}

// The derivative of an activation, told by its result y.
template <class V>
FUSED_RNN_HOST_DEVICE V activation_slope(Activation kind, V y) {
  switch (kind) {
    case Activation::kTanh:
      return fma(-y, y, V(1));
    case Activation::kSigmoid:
      return y * (V(1) - y);
    case Activation::kRelu:
      return select(y > V(0), V(1), V(0));
    case Activation::kLinear:
      return V(1);
    case Activation::kHardSigmoid:
      return select(y > V(0), select(y < V(1), V(1.0 / 6), V(0)), V(0));
    case Activation::kSoftsign: {
      const V s = V(1) - abs(y);
      return s * s;
    }
    case Activation::kElu:
      return select(y > V(0), V(1), y + V(1));
  }
  return V(1);
}

// Reset after: c̄ = gx_c + r∘gh_c.
template <class V>
FUSED_RNN_HOST_DEVICE V gru_candidate_after(V gx_c, V r, V gh_c) {
  return fma(r, gh_c, gx_c);
}

// h_t = z∘h + (1−z)∘c. With z = 1 it is h, to the bit.
template <class V>
FUSED_RNN_HOST_DEVICE V gru_state(V z, V h_prev, V c) {
  return fma(z, h_prev, (V(1) - z) * c);
}

// What d_h = ∂/∂h_t hands to z, c and h_{t-1} through gru_state.
template <class V>
struct GruStateGradient {
  V z;
  V c;
  V h;
};

template <class V>
FUSED_RNN_HOST_DEVICE GruStateGradient<V> gru_state_gradient(V d_h, V z,
                                                             V h_prev, V c) {
  return {d_h * (h_prev - c), d_h * (V(1) - z), d_h * z};
}

// LSTM: c_t = f∘c + i∘j, cut off at ± clip where that is not 0.
template <class V>
FUSED_RNN_HOST_DEVICE V lstm_cell_state(V i, V f, V j, V c_prev, V clip) {
  const V c = fma(f, c_prev, i * j);
  // NaN stays NaN; a clip of 0 cuts nothing.
  const V low = select(c < -clip, -clip, c);
  const V cut = select(low > clip, clip, low);
  return select(clip > V(0), cut, c);
}

// What ∂/∂c_t, in full, hands to i, f, j and c_{t-1}. Where c_t was cut off it
// depends on none of them.
template <class V>
struct LstmCellGradient {
  V i;
  V f;
  V j;
  V c;
};

template <class V>
FUSED_RNN_HOST_DEVICE LstmCellGradient<V> lstm_cell_gradient(
    V d_c, V i, V f, V j, V c_prev, V c, V clip) {
  const V open = select(clip > V(0), select(abs(c) < clip, V(1), V(0)), V(1));
  const V d = d_c * open;
  return {d * j, d * c_prev, d * i, d * f};
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CELL_MATH_H_
