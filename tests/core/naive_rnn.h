// The contract of core/rnn.h in plain loops, one value at a time, computed in
// C (double unless told otherwise). Nothing here is fast, and nothing is shared
// with the kernels but the conversions of half types, which have their own
// test.
#ifndef FUSED_RNN_TESTS_CORE_NAIVE_RNN_H_
#define FUSED_RNN_TESTS_CORE_NAIVE_RNN_H_

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

template <class C = double, class T>
void rnn_forward(const RnnForward<T>& g) {
  const RnnShape& s = g.shape;
  const RnnOptions& o = g.options;
  for (Index b = 0; b < s.batch; ++b) {
    Values<C> h = values_of<C>(row_of(g.h0, b), s.units);
    Values<C> last_output(s.units, C(0));
    for (Index t = 0; t < s.steps; ++t) {
      if (!valid(g.mask, t, b)) {
        const Values<C> zeros(s.units, C(0));
        write_row(row_of(g.outputs, t, b),
                  o.zero_output_for_mask ? zeros : last_output);
        for (const Sequence<T>& r : g.reserve) {
          write_row(row_of(r, t, b), zeros);
        }
        continue;
      }
      const Values<C> x = values_of<C>(row_of(g.x, t, b), s.inputs);
      Values<C> gx[kGruGates], gh[kGruGates];
      for (int gate = 0; gate < kGruGates; ++gate) {
        gx[gate] = values_of<C>(g.weights.bias[gate], s.units);
        add_product(gx[gate], x, g.weights.kernel[gate]);
        gh[gate] = values_of<C>(
            o.reset_after ? g.weights.recurrent_bias[gate] : nullptr, s.units);
        if (gate != kCandidate || o.reset_after) {
          add_product(gh[gate], dropped(h, row_of(g.recurrent_dropout[gate], b)),
                      g.weights.recurrent[gate]);
        }
      }
      Values<C> z(s.units), r(s.units), c(s.units), reset_h(s.units);
      for (Index j = 0; j < s.units; ++j) {
        z[j] = activate(o.recurrent_activation, gx[kUpdate][j] + gh[kUpdate][j]);
        r[j] = activate(o.recurrent_activation, gx[kReset][j] + gh[kReset][j]);
        reset_h[j] = r[j] * h[j];
      }
      if (!o.reset_after) {
        add_product(gx[kCandidate],
                    dropped(reset_h, row_of(g.recurrent_dropout[kCandidate], b)),
                    g.weights.recurrent[kCandidate]);
      }
      for (Index j = 0; j < s.units; ++j) {
        C sum = gx[kCandidate][j];
        if (o.reset_after) sum += r[j] * gh[kCandidate][j];
        c[j] = activate(o.activation, sum);
        h[j] = z[j] * h[j] + (1 - z[j]) * c[j];
      }
      last_output = h;
      write_row(row_of(g.outputs, t, b), h);
      write_row(row_of(g.reserve[kUpdate], t, b), z);
      write_row(row_of(g.reserve[kReset], t, b), r);
      write_row(row_of(g.reserve[kCandidate], t, b), c);
      write_row(row_of(g.reserve[kRecurrentCandidate], t, b), gh[kCandidate]);
    }
    write_row(row_of(g.state, b), h);
  }
}

// h_{t-1}: the output of the last valid step before t, or h0.
template <class C, class G>
Values<C> previous_state(const G& g, Index t, Index b) {
  while (--t >= 0) {
    if (valid(g.mask, t, b)) {
      return values_of<C>(row_of(g.outputs, t, b), g.shape.units);
    }
  }
  return values_of<C>(row_of(g.h0, b), g.shape.units);
}

template <class C = double, class T>
void rnn_backward(const RnnBackward<T>& g) {
  const RnnShape& s = g.shape;
  const RnnOptions& o = g.options;
  for (Index b = 0; b < s.batch; ++b) {
    Values<C> d_h = values_of<C>(row_of(g.d_state, b), s.units);
    Values<C> d_repeated(s.units, C(0));  // of masked steps after this one
    for (Index t = s.steps - 1; t >= 0; --t) {
      const Values<C> d_output =
          values_of<C>(row_of(g.d_outputs, t, b), s.units);
      if (!valid(g.mask, t, b)) {
        if (!o.zero_output_for_mask) {
          for (Index j = 0; j < s.units; ++j) d_repeated[j] += d_output[j];
        }
        for (const Sequence<T>& d : g.d_gates) {
          write_row(row_of(d, t, b), Values<C>(s.units, C(0)));
        }
        continue;
      }
      const Values<C> h = previous_state<C>(g, t, b);
      Values<C> gates[kGruReserve], d_in[kGruGates];
      for (int i = 0; i < kGruReserve; ++i) {
        gates[i] = values_of<C>(row_of(g.reserve[i], t, b), s.units);
      }
      for (int i = 0; i < kGruGates; ++i) {
        d_in[i] = values_of<C>(row_of(g.d_reserve[i], t, b), s.units);
      }
      const Values<C>&z = gates[kUpdate], &r = gates[kReset],
                     &c = gates[kCandidate], &gh = gates[kRecurrentCandidate];
      Values<C> d_z(s.units), d_r(s.units), d_c(s.units), d_gh(s.units),
          d_prev(s.units);
      for (Index j = 0; j < s.units; ++j) {
        const C d = d_h[j] + d_output[j] + d_repeated[j];
        d_repeated[j] = 0;
        d_z[j] = (d * (h[j] - c[j]) + d_in[kUpdate][j]) *
                 slope(o.recurrent_activation, z[j]);
        d_c[j] = (d * (1 - z[j]) + d_in[kCandidate][j]) *
                 slope(o.activation, c[j]);
        d_prev[j] = d * z[j];
      }
      auto through = [&](int gate, const Values<C>& d) {
        return dropped(times_transposed(d, g.weights.recurrent[gate], s.units),
                       row_of(g.recurrent_dropout[gate], b));
      };
      if (o.reset_after) {
        for (Index j = 0; j < s.units; ++j) {
          d_r[j] = (d_c[j] * gh[j] + d_in[kReset][j]) *
                   slope(o.recurrent_activation, r[j]);
          d_gh[j] = d_c[j] * r[j];
        }
        const Values<C> d_candidate = through(kCandidate, d_gh);
        for (Index j = 0; j < s.units; ++j) d_prev[j] += d_candidate[j];
      } else {
        const Values<C> d_reset_h = through(kCandidate, d_c);
        for (Index j = 0; j < s.units; ++j) {
          d_r[j] = (d_reset_h[j] * h[j] + d_in[kReset][j]) *
                   slope(o.recurrent_activation, r[j]);
          d_prev[j] += d_reset_h[j] * r[j];
        }
      }
      const Values<C> from_z = through(kUpdate, d_z);
      const Values<C> from_r = through(kReset, d_r);
      for (Index j = 0; j < s.units; ++j) d_prev[j] += from_z[j] + from_r[j];
      write_row(row_of(g.d_gates[kUpdate], t, b), d_z);
      write_row(row_of(g.d_gates[kReset], t, b), d_r);
      write_row(row_of(g.d_gates[kCandidate], t, b), d_c);
      if (o.reset_after) {
        write_row(row_of(g.d_gates[kRecurrentCandidate], t, b), d_gh);
      }
      d_h = d_prev;
    }
    write_row(row_of(g.d_h0, b), d_h);
  }
}

template <class C = double, class T>
void rnn_input_gradient(const RnnInputGradient<T>& g) {
  const RnnShape& s = g.shape;
  for (Index t = 0; t < s.steps; ++t) {
    for (Index b = 0; b < s.batch; ++b) {
      Values<C> sum(s.inputs, C(0));
      for (int gate = 0; valid(g.mask, t, b) && gate < kGruGates; ++gate) {
        const Values<C> part = times_transposed(
            values_of<C>(row_of(g.d_gates[gate], t, b), s.units),
            g.weights.kernel[gate], s.inputs);
        for (Index i = 0; i < s.inputs; ++i) sum[i] += part[i];
      }
      write_row(row_of(g.d_x, t, b), sum);
    }
  }
}

template <class C = double, class T>
void rnn_weight_gradient(const RnnWeightGradient<T>& g) {
  const RnnShape& s = g.shape;
  const bool after = g.options.reset_after;
  for (int gate = 0; gate < kGruGates; ++gate) {
    Values<C> d_kernel(s.inputs * s.units, C(0));
    Values<C> d_recurrent(s.units * s.units, C(0));
    Values<C> d_bias(s.units, C(0)), d_recurrent_bias(s.units, C(0));
    for (Index t = 0; t < s.steps; ++t) {
      for (Index b = 0; b < s.batch; ++b) {
        if (!valid(g.mask, t, b)) continue;
        const Values<C> x = values_of<C>(row_of(g.x, t, b), s.inputs);
        Values<C> h = previous_state<C>(g, t, b);
        if (gate == kCandidate && !after) {
          for (Index j = 0; j < s.units; ++j) {
            h[j] *= read<C>(row_of(g.reset, t, b), j);
          }
        }
        h = dropped(h, row_of(g.recurrent_dropout[gate], b));
        const Values<C> d =
            values_of<C>(row_of(g.d_gates[gate], t, b), s.units);
        const int at = gate == kCandidate && after ? kRecurrentCandidate : gate;
        const Values<C> d_h =
            values_of<C>(row_of(g.d_gates[at], t, b), s.units);
        for (Index j = 0; j < s.units; ++j) {
          for (Index i = 0; i < s.inputs; ++i) {
            d_kernel[i * s.units + j] += x[i] * d[j];
          }
          for (Index i = 0; i < s.units; ++i) {
            d_recurrent[i * s.units + j] += h[i] * d_h[j];
          }
          d_bias[j] += d[j];
          d_recurrent_bias[j] += d_h[j];
        }
      }
    }
    for (Index j = 0; j < s.units; ++j) {
      for (Index i = 0; i < s.inputs; ++i) {
        write(row_of(g.d_kernel[gate], i), j, d_kernel[i * s.units + j]);
      }
      for (Index i = 0; i < s.units; ++i) {
        write(row_of(g.d_recurrent[gate], i), j, d_recurrent[i * s.units + j]);
      }
      write(g.d_bias[gate], j, d_bias[j]);
      if (after) write(g.d_recurrent_bias[gate], j, d_recurrent_bias[j]);
    }
  }
}

}  // namespace naive
}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CORE_NAIVE_RNN_H_
