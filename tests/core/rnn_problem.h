// Random problems for the contract of core/rnn.h: arrays of every layout that
// it allows, each allocated to the element so that AddressSanitizer sees any
// step beyond, with values between their rows that nobody may touch.
#ifndef FUSED_RNN_TESTS_CORE_RNN_PROBLEM_H_
#define FUSED_RNN_TESTS_CORE_RNN_PROBLEM_H_

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "core/rnn.h"
#include "core/half.h"

namespace fused_rnn {
namespace test {

using Random = std::mt19937;

inline bool coin(Random& random) { return random() & 1; }

// Where the elements of [T, B, N] lie.
struct Layout {
  bool batch_major = false;
  bool reversed = false;   // in time
  Index gap = 0;           // elements between rows
  Index misaligned = 0;    // elements before the first
};

inline Layout random_layout(Random& random) {
  Layout layout;
  layout.batch_major = coin(random);
  layout.reversed = random() % 4 == 0;
  layout.gap = coin(random) ? 0 : random() % 5;
  layout.misaligned = coin(random) ? 0 : 1 + random() % 3;
  return layout;
}

template <class T>
class Array {
 public:
  Array() = default;
  Array(Layout layout, Index steps, Index batch, Index n)
      : layout_(layout), steps_(steps), batch_(batch), n_(n) {
    const Index row = n + layout.gap;
    const Index rows = steps * batch;
    size_ = layout.misaligned + (rows > 0 ? rows * row - layout.gap : 0);
    data_.reset(new T[size_]);
    std::memset(static_cast<void*>(data_.get()), kUntouched,
                size_ * sizeof(T));
    view_.row = layout.batch_major ? steps * row : row;
    view_.step = layout.batch_major ? row : batch * row;
    view_.data = data_.get() + layout.misaligned;
    if (layout.reversed && steps > 0) {
      view_.data += (steps - 1) * view_.step;
      view_.step = -view_.step;
    }
  }

  // The same layout and values.
  Array copy() const {
    Array other(layout_, steps_, batch_, n_);
    if (size_ > 0) {
      std::memcpy(static_cast<void*>(other.data_.get()), data_.get(),
                  size_ * sizeof(T));
    }
    return other;
  }
  // The same layout, nothing written yet.
  Array fresh() const { return Array(layout_, steps_, batch_, n_); }

  Index steps() const { return steps_; }
  Index batch() const { return batch_; }
  Index size() const { return n_; }
  T* at(Index t, Index b) const { return view_.at(t, b); }
  Sequence<T> sequence() const { return view_; }
  Sequence<const T> inputs() const {
    return {view_.data, view_.step, view_.row};
  }
  // For arrays of one step.
  Rows<T> rows() const { return {view_.data, view_.row}; }
  Rows<const T> input_rows() const { return {view_.data, view_.row}; }

  template <class F>
  void for_each(F f) const {
    for (Index t = 0; t < steps_; ++t) {
      for (Index b = 0; b < batch_; ++b) {
        for (Index j = 0; j < n_; ++j) f(t, b, j, at(t, b)[j]);
      }
    }
  }

  void fill(Random& random, double scale) const {
    std::uniform_real_distribution<double> values(-scale, scale);
    for_each([&](Index, Index, Index, T& value) {
      value = from_compute<T>(static_cast<Compute<T>>(values(random)));
    });
  }

  bool same_bits(const Array& other) const {
    return size_ == other.size_ &&
           (size_ == 0 ||
            std::memcmp(data_.get(), other.data_.get(), size_ * sizeof(T)) ==
                0);
  }

  // Whether what lies between the rows is as it was made.
  bool gaps_untouched() const {
    std::vector<bool> element(size_, false);
    for_each([&](Index, Index, Index, T& value) {
      element[&value - data_.get()] = true;
    });
    for (Index i = 0; i < size_; ++i) {
      const auto* bytes = reinterpret_cast<const unsigned char*>(&data_[i]);
      for (std::size_t k = 0; !element[i] && k < sizeof(T); ++k) {
        if (bytes[k] != kUntouched) return false;
      }
    }
    return true;
  }

 private:
  // Large in every type, so that an element which nobody wrote is noticed.
  static constexpr unsigned char kUntouched = 0x5a;

  Layout layout_;
  Index steps_ = 0, batch_ = 0, n_ = 0, size_ = 0;
  std::unique_ptr<T[]> data_;
  Sequence<T> view_;
};

// Scratch of exactly so many bytes, aligned as promised, full of NaN.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) {
    void* p = nullptr;
    if (posix_memalign(&p, kWorkspaceAlignment, bytes + (bytes == 0)) != 0) {
      std::abort();
    }
    std::memset(p, 0xff, bytes);
    data_.reset(p);
  }
  void* get() const { return data_.get(); }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> data_;
};

enum class Masking { kNone, kRandom, kRightPadded, kLeftPadded };

// Sizes, and what else a problem is made of.
struct Case {
  const char* name;
  RnnShape shape;
};

// The members of the family.
struct Kind {
  const char* name;
  Cell cell;
  bool reset_after;
};
inline const Kind kKinds[] = {
    {"GRU, reset before", Cell::kGru, false},
    {"GRU, reset after", Cell::kGru, true},
    {"LSTM", Cell::kLstm, false},
    {"simple RNN", Cell::kSimpleRnn, false},
};

template <class T>
struct Problem {
  Case what;
  Kind kind;
  RnnOptions options;
  Masking masking = Masking::kNone;
  Array<T> x, h0, c0;
  Array<T> kernel[kMaxGates], recurrent[kMaxGates];
  Array<T> bias[kMaxGates], recurrent_bias[kMaxGates], peephole[kMaxGates];
  Array<T> dropout[kMaxGates];
  Array<std::uint8_t> mask;
  // Incoming gradients.
  Array<T> d_outputs, d_state, d_cell_state, d_reserve[kMaxReserve];
  // The layouts of what is written.
  Array<T> outputs, state, cell_state, reserve[kMaxReserve];
  Array<T> d_gates[kMaxGates], d_h0, d_c0, d_x;
  Array<T> d_kernel[kMaxGates], d_recurrent[kMaxGates];
  Array<T> d_bias[kMaxGates], d_recurrent_bias[kMaxGates];
  bool has_h0, has_c0, has_bias, has_dropout, shares_dropout, has_peephole;
  bool has_d_outputs, has_d_state, has_d_cell_state, has_d_reserve;

  // With `dense` rows have no gaps and start where the allocator puts them.
  Problem(const Case& c, const Kind& k, std::uint32_t seed, bool dense = false)
      : what(c), kind(k) {
    Random random(seed);
    const auto layout_of = [&] {
      Layout layout = random_layout(random);
      if (dense) layout.gap = layout.misaligned = 0;
      return layout;
    };
    const Index t = c.shape.steps, b = c.shape.batch, i = c.shape.inputs,
                h = c.shape.units;
    options.cell = kind.cell;
    options.reset_after = kind.reset_after;
    options.zero_output_for_mask = coin(random);
    if (random() % 3 == 0) {
      const Activation any[] = {
          Activation::kSigmoid,  Activation::kHardSigmoid, Activation::kTanh,
          Activation::kSoftsign, Activation::kRelu,        Activation::kLinear,
          Activation::kElu};
      // Over many steps only what keeps states bounded: a candidate that is,
      // and gates between 0 and 1.
      const bool few = t <= 3;
      options.activation = any[random() % (few ? 7 : 4)];
      options.recurrent_activation = any[random() % (few ? 7 : 2)];
    }
    masking = static_cast<Masking>(random() % 4);
    has_h0 = random() % 4 != 0;
    has_bias = random() % 4 != 0;
    has_dropout = random() % 3 == 0;
    has_d_outputs = random() % 4 != 0;
    has_d_state = random() % 4 != 0;
    has_d_reserve = cell_is(Cell::kSimpleRnn) ? false : random() % 3 == 0;
    has_c0 = cell_is(Cell::kLstm) && coin(random);
    has_d_cell_state = cell_is(Cell::kLstm) && coin(random);
    has_peephole = cell_is(Cell::kLstm) && random() % 3 == 0;
    shares_dropout = coin(random);
    if (cell_is(Cell::kLstm) && coin(random)) options.forget_bias = 1;
    // A value that all types have: what is cut off is told by it.
    if (cell_is(Cell::kLstm) && random() % 3 == 0) options.cell_clip = 0.375;

    const auto sequence = [&](Array<T>& a, Index n, double scale) {
      a = Array<T>(layout_of(), t, b, n);
      a.fill(random, scale);
    };
    const auto rows = [&](Array<T>& a, Index count, Index n, double scale) {
      Layout layout = layout_of();
      layout.batch_major = layout.reversed = false;
      a = Array<T>(layout, 1, count, n);
      a.fill(random, scale);
    };
    sequence(x, i, 1);
    rows(h0, b, h, 1);
    rows(c0, b, h, 1);
    const double small = 1 / std::sqrt(1.0 + i + h);
    for (int g = 0; g < kMaxGates; ++g) {
      rows(kernel[g], i, h, 2 * small);
      rows(recurrent[g], h, h, 2 * small);
      rows(bias[g], 1, h, 0.5);
      rows(recurrent_bias[g], 1, h, 0.5);
      rows(peephole[g], 1, h, 0.5);
      rows(dropout[g], b, h, 1);
      dropout[g].for_each([&](Index, Index, Index, T& value) {
        value = from_compute<T>(coin(random) ? 0 : 2);
      });
      sequence(d_gates[g], h, 0);
      d_kernel[g] = kernel[g].fresh();
      d_recurrent[g] = recurrent[g].fresh();
      d_bias[g] = bias[g].fresh();
      d_recurrent_bias[g] = recurrent_bias[g].fresh();
    }
    sequence(d_outputs, h, 1);
    rows(d_state, b, h, 1);
    rows(d_cell_state, b, h, 1);
    sequence(outputs, h, 0);
    rows(state, b, h, 0);
    rows(cell_state, b, h, 0);
    rows(d_h0, b, h, 0);
    rows(d_c0, b, h, 0);
    sequence(d_x, i, 0);
    for (int r = 0; r < kMaxReserve; ++r) {
      sequence(reserve[r], h, 0);
      sequence(d_reserve[r], h, 1);
    }
    make_mask(random);
  }

  Mask mask_view() const {
    if (masking == Masking::kNone) return {};
    const Sequence<std::uint8_t> view = mask.sequence();
    return {view.data, view.step, view.row};
  }

  bool cell_is(Cell cell) const { return kind.cell == cell; }
  int gates() const { return gate_count(options); }
  int gate_gradients() const { return gate_gradient_count(options); }
  int kept_count() const { return reserve_count(options); }

  // Into the arrays of `r`, which has the members of Results.
  template <class Results>
  RnnForward<T> forward(const Results& r) const {
    RnnForward<T> g;
    g.shape = what.shape;
    g.options = options;
    g.x = x.inputs();
    if (has_h0) g.h0 = h0.input_rows();
    if (has_c0) g.c0 = c0.input_rows();
    g.weights = weights();
    g.mask = mask_view();
    g.outputs = r.outputs.sequence();
    g.state = r.state.rows();
    if (has_cell_state(options)) {
      g.cell_state = r.cell_state.rows();
      g.reserve[kCellOutput] = r.reserve[kCellOutput].sequence();
    }
    for (int i = 0; i < kept_count(); ++i)
      g.reserve[i] = r.reserve[i].sequence();
    set_dropout(g.recurrent_dropout);
    return g;
  }

  // Of a pass that left its outputs and reserve in `given`.
  template <class Results>
  RnnBackward<T> backward(const Results& given, const Results& r) const {
    RnnBackward<T> g;
    g.shape = what.shape;
    g.options = options;
    g.weights = weights();
    if (has_h0) g.h0 = h0.input_rows();
    if (has_c0) g.c0 = c0.input_rows();
    g.outputs = given.outputs.inputs();
    g.mask = mask_view();
    set_dropout(g.recurrent_dropout);
    for (int i = 0; i < kept_count(); ++i)
      g.reserve[i] = given.reserve[i].inputs();
    for (int i = 0; i < gate_gradients(); ++i)
      g.d_gates[i] = r.d_gates[i].sequence();
    if (has_d_outputs) g.d_outputs = d_outputs.inputs();
    if (has_d_state) g.d_state = d_state.input_rows();
    if (has_d_cell_state) g.d_cell_state = d_cell_state.input_rows();
    // Of a GRU's gates; of an LSTM's, and of c_t and g(c_t).
    const int arriving = cell_is(Cell::kLstm) ? kMaxReserve : gates();
    for (int i = 0; has_d_reserve && i < arriving; ++i)
      g.d_reserve[i] = d_reserve[i].inputs();
    g.d_h0 = r.d_h0.rows();
    if (has_cell_state(options)) g.d_c0 = r.d_c0.rows();
    return g;
  }

  template <class Results>
  RnnInputGradient<T> input_gradient(const Results& given,
                                     const Results& r) const {
    RnnInputGradient<T> g;
    g.shape = what.shape;
    g.options = options;
    g.weights = weights();
    g.mask = mask_view();
    for (int i = 0; i < gates(); ++i) g.d_gates[i] = given.d_gates[i].inputs();
    g.d_x = r.d_x.sequence();
    return g;
  }

  // Without destinations.
  template <class Results>
  RnnWeightGradient<T> weight_gradient(const Results& given) const {
    RnnWeightGradient<T> g;
    g.shape = what.shape;
    g.options = options;
    g.x = x.inputs();
    if (has_h0) g.h0 = h0.input_rows();
    g.outputs = given.outputs.inputs();
    if (two_stages(options)) g.reset = given.reserve[kReset].inputs();
    if (has_c0) g.c0 = c0.input_rows();
    if (has_cell_state(options))
      g.cell_states = given.reserve[kCellState].inputs();
    g.mask = mask_view();
    set_dropout(g.recurrent_dropout);
    for (int i = 0; i < gate_gradients(); ++i)
      g.d_gates[i] = given.d_gates[i].inputs();
    return g;
  }

 private:
  RnnWeights<T> weights() const {
    RnnWeights<T> w;
    for (int g = 0; g < gates(); ++g) {
      w.kernel[g] = kernel[g].input_rows();
      w.recurrent[g] = recurrent[g].input_rows();
      if (has_peephole && g != kCellInput) w.peephole[g] = peephole[g].at(0, 0);
      if (!has_bias) continue;
      w.bias[g] = bias[g].at(0, 0);
      if (options.reset_after) w.recurrent_bias[g] = recurrent_bias[g].at(0, 0);
    }
    return w;
  }

  void set_dropout(Rows<const T> (&to)[kMaxGates]) const {
    for (int g = 0; has_dropout && g < gates(); ++g)
      to[g] = dropout[shares_dropout ? 0 : g].input_rows();
  }

  // What lies in x at masked steps is not to be looked at.
  void make_mask(Random& random) {
    const Index steps = what.shape.steps, batch = what.shape.batch;
    mask = Array<std::uint8_t>(random_layout(random), steps, batch, 1);
    for (Index b = 0; b < batch; ++b) {
      // Some rows are masked everywhere, some nowhere.
      const Index length = random() % (steps + 1);
      for (Index t = 0; t < steps; ++t) {
        const bool valid = masking == Masking::kNone ||
                           (masking == Masking::kRandom && coin(random)) ||
                           (masking == Masking::kRightPadded && t < length) ||
                           (masking == Masking::kLeftPadded && t >= length);
        *mask.at(t, b) = valid ? (coin(random) ? 1 : 0xff) : 0;
        for (Index i = 0; !valid && i < what.shape.inputs; ++i) {
          x.at(t, b)[i] = from_compute<T>(
              static_cast<Compute<T>>(coin(random) ? NAN : INFINITY));
        }
      }
    }
  }
};

}  // namespace test
}  // namespace fused_rnn

#endif  // FUSED_RNN_TESTS_CORE_RNN_PROBLEM_H_
