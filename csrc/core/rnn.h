// THE contract of the core: a recurrent cell over a sequence, forward and
// backward. The cell step is the case of one step.
//
// Sizes: T steps, B batch rows, I inputs, H units. Gates are in Keras' order.
// With ∘ elementwise, f the recurrent activation (sigmoid) and g the activation
// (tanh), for h = h_{t-1} and c = c_{t-1}:
//
//   GRU: update z (TensorFlow's u), reset r, candidate c
//   reset before (TF GRUBlockCell, Keras reset_after=False):
//     z = f(x·K_z + h·R_z + b_z)      r = f(x·K_r + h·R_r + b_r)
//     c = g(x·K_c + (r∘h)·R_c + b_c)  h_t = z∘h + (1−z)∘c
//   reset after (Keras' default, cuDNN, PyTorch):
//     gh_g = h·R_g + rb_g
//     z = f(x·K_z + b_z + gh_z)       r = f(x·K_r + b_r + gh_r)
//     c = g(x·K_c + b_c + r∘gh_c)     h_t = z∘h + (1−z)∘c
//
//   LSTM: input i, forget f, cell input j (Keras' c, TensorFlow's ci), output o
//     ī = x·K_i + h·R_i + b_i, and so on; p: peepholes, TF's LSTMBlockCell only
//     i = f(ī + p_i∘c)                f = f(f̄ + p_f∘c)
//     j = g(j̄)                        c_t = clip(f∘c + i∘j)
//     o = f(ō + p_o∘c_t)              h_t = o∘g(c_t)
//
//   Simple RNN: one gate
//     h_t = g(x·K + h·R + b)
//
// With a recurrent dropout mask m (one a gate, fixed over time) every h·R_g
// above reads (h∘m_g)·R_g, and (r∘h)·R_c reads (r∘h∘m_c)·R_c.
//
// Masks, as Keras means them: at a masked step nothing is computed, the states
// are carried, the output repeats the previous output (zeros before the first
// valid step) or is zero with zero_output_for_mask. What lies in x at a masked
// step reaches nothing. Reserve and gate gradients of masked steps are zeros.
//
// The core trusts its arguments: the caller has checked sizes and pointers.
// No pointer is kept after a call. Outputs must not overlap inputs, except
// where a field says so. Rows are contiguous (last stride 1). A pointer to
// something with no elements may be null only where null has no meaning of its
// own.
#ifndef FUSED_RNN_CORE_RNN_H_
#define FUSED_RNN_CORE_RNN_H_

#include "core/parallel.h"
#include "core/types.h"

namespace fused_rnn {

enum class Cell { kGru, kLstm, kSimpleRnn };

// A gate's place in the weights, and a value's in the reserve.
// GRU.
constexpr int kUpdate = 0;
constexpr int kReset = 1;
constexpr int kCandidate = 2;
// A fourth value a unit and step, reset after only. In the reserve: gh_c. In
// the gate gradients: that of gh_c, d_c̄∘r.
constexpr int kRecurrentCandidate = 3;
constexpr int kGruGates = 3;
constexpr int kGruReserve = 4;
// LSTM.
constexpr int kInput = 0;
constexpr int kForget = 1;
constexpr int kCellInput = 2;
constexpr int kOutput = 3;
constexpr int kCellState = 4;   // in the reserve: c_t
constexpr int kCellOutput = 5;  // g(c_t); nothing reads it again
// Peepholes are stored by the gate that they enter, so kCellInput has none.

// The most of any cell.
constexpr int kMaxGates = 4;
constexpr int kMaxReserve = 6;

// hard_sigmoid is Keras 3's: min(max(x / 6 + 1/2, 0), 1). elu has alpha 1.
enum class Activation {
  kTanh,
  kSigmoid,
  kRelu,
  kLinear,
  kHardSigmoid,
  kSoftsign,
  kElu,
};

// The names that every front of the core gives them.
struct NamedActivation {
  const char* name;
  Activation activation;
};
constexpr NamedActivation kActivations[] = {
    {"tanh", Activation::kTanh},
    {"sigmoid", Activation::kSigmoid},
    {"relu", Activation::kRelu},
    {"linear", Activation::kLinear},
    {"hard_sigmoid", Activation::kHardSigmoid},
    {"softsign", Activation::kSoftsign},
    {"elu", Activation::kElu},
};

struct RnnShape {
  Index steps = 0;   // T
  Index batch = 0;   // B
  Index inputs = 0;  // I
  Index units = 0;   // H
};

struct RnnOptions {
  Cell cell = Cell::kGru;
  bool reset_after = false;  // GRU only
  bool zero_output_for_mask = false;
  Activation activation = Activation::kTanh;               // g
  Activation recurrent_activation = Activation::kSigmoid;  // f; not simple RNN
  double forget_bias = 0;  // LSTM: added to b_f
  // LSTM: c_t is cut off at ± this, rounded to T; 0: not at all.
  double cell_clip = 0;
};

constexpr bool resets_after(const RnnOptions& options) {
  return options.cell == Cell::kGru && options.reset_after;
}
constexpr int gate_count(const RnnOptions& options) {
  switch (options.cell) {
    case Cell::kGru:
      return 3;
    case Cell::kLstm:
      return 4;
    case Cell::kSimpleRnn:
      return 1;
  }
  return 0;
}
// Gradients of the gates that a backward pass gives, one a gate and that of
// gh_c: the first of the reserve.
constexpr int gate_gradient_count(const RnnOptions& options) {
  return resets_after(options) ? kRecurrentCandidate + 1 : gate_count(options);
}
// Values of the reserve that a backward pass reads. A simple RNN's are its
// outputs.
constexpr int reserve_count(const RnnOptions& options) {
  switch (options.cell) {
    case Cell::kGru:
      return gate_gradient_count(options);
    case Cell::kLstm:
      return kCellState + 1;
    case Cell::kSimpleRnn:
      return 0;
  }
  return 0;
}
constexpr bool has_cell_state(const RnnOptions& options) {
  return options.cell == Cell::kLstm;
}
// Whether a step's second product depends on its first.
constexpr bool two_stages(const RnnOptions& options) {
  return options.cell == Cell::kGru && !options.reset_after;
}

// Each gate's matrix lies anywhere in what the caller stores: element (k, j)
// of gate g at kernel[g].data[k * kernel[g].row + j]. Keras' kernel [I, 3H]
// is three views 3H apart in rows and H apart in columns; the block cells'
// matrices over [x h] are views too.
template <class T>
struct RnnWeights {
  Rows<const T> kernel[kMaxGates];     // [I, H]
  Rows<const T> recurrent[kMaxGates];  // [H, H]
  const T* bias[kMaxGates] = {};            // [H]; null: none
  const T* recurrent_bias[kMaxGates] = {};  // [H]; null: none; reset after only
  const T* peephole[kMaxGates] = {};        // [H]; null: none; LSTM only
};

// Element (t, b) at data[t * step + b * row]; 0 means masked. Null: no mask.
struct Mask {
  const std::uint8_t* data = nullptr;
  Index step = 0;
  Index row = 0;
};

// Which gate gradient belongs to a gate's recurrent product.
inline int recurrent_gate(int gate, const RnnOptions& options) {
  return gate == kCandidate && resets_after(options) ? kRecurrentCandidate
                                                     : gate;
}

template <class T>
struct RnnForward {
  RnnShape shape;
  RnnOptions options;
  Sequence<const T> x;   // [T, B, I]
  Rows<const T> h0;      // [B, H]; null: zeros
  Rows<const T> c0;      // [B, H]; null: zeros; LSTM only
  RnnWeights<T> weights;
  Mask mask;
  // [B, H]; null: none (all or none)
  Rows<const T> recurrent_dropout[kMaxGates];

  // From rnn_pack with the same weights, shape, options, number of threads and
  // instruction set; null: weights are packed as far as the call needs it.
  const void* packed = nullptr;

  Sequence<T> outputs;  // [T, B, H]; null: not wanted
  Rows<T> state;        // [B, H]; the last state; null: not wanted; may be h0
  Rows<T> cell_state;   // [B, H]; likewise c; may be c0; LSTM only
  // [T, B, H] the gates after activation and what else the cell has. Data null
  // in inference; any one may be null.
  Sequence<T> reserve[kMaxReserve];
};

template <class T>
struct RnnBackward {
  RnnShape shape;  // inputs unused
  RnnOptions options;
  RnnWeights<T> weights;   // recurrent and peephole only
  Rows<const T> h0;        // [B, H]; null: zeros
  Rows<const T> c0;        // [B, H]; null: zeros; LSTM only
  Sequence<const T> outputs;  // [T, B, H] of the forward pass
  Sequence<const T> reserve[kMaxReserve];  // [T, B, H]; reserve_count() of them
  Mask mask;
  Rows<const T> recurrent_dropout[kMaxGates];

  // Incoming gradients; null: zeros.
  Sequence<const T> d_outputs;          // [T, B, H]
  Rows<const T> d_state;                // [B, H]
  Rows<const T> d_cell_state;           // [B, H]; LSTM only
  // [T, B, H] arriving at gates, c_t and g(c_t); not of a simple RNN.
  Sequence<const T> d_reserve[kMaxReserve];

  Rows<T> d_h0;  // [B, H]; null: not wanted; may be h0 or d_state
  Rows<T> d_c0;  // [B, H]; null: not wanted; may be c0 or d_cell_state
  // [T, B, H] of the gates before activation and, GRU reset after only, d_c̄∘r.
  // All gate_gradient_count() wanted; may be reserve, each its own.
  Sequence<T> d_gates[kMaxGates];
};

// d_x[t, b] = Σ_gates d_gate·kernelᵀ, zero at masked steps.
template <class T>
struct RnnInputGradient {
  RnnShape shape;
  RnnOptions options;
  RnnWeights<T> weights;  // kernel only
  Mask mask;
  Sequence<const T> d_gates[kMaxGates];  // [T, B, H] as RnnBackward wrote them
  Sequence<T> d_x;                       // [T, B, I]
};

// The gradients of all weights and biases, summed over valid steps and rows in
// an order that does not depend on the number of threads. Null: not wanted.
template <class T>
struct RnnWeightGradient {
  RnnShape shape;
  RnnOptions options;
  Sequence<const T> x;        // [T, B, I]
  Rows<const T> h0;           // [B, H]; null: zeros
  Sequence<const T> outputs;  // [T, B, H]
  Sequence<const T> reset;    // [T, B, H] r of the reserve; GRU reset before
  // What peepholes see; with d_peephole only.
  Rows<const T> c0;               // [B, H]; null: zeros
  Sequence<const T> cell_states;  // [T, B, H] c_t of the reserve
  Mask mask;
  Rows<const T> recurrent_dropout[kMaxGates];
  Sequence<const T> d_gates[kMaxGates];  // as RnnBackward wrote them

  Rows<T> d_kernel[kMaxGates];          // [I, H]
  Rows<T> d_recurrent[kMaxGates];       // [H, H]
  T* d_bias[kMaxGates] = {};            // [H]
  T* d_recurrent_bias[kMaxGates] = {};  // [H]; reset after only
  T* d_peephole[kMaxGates] = {};        // [H]; LSTM only, on CPUs only
};

// Scratch bytes that a call needs with so many threads. The caller passes a
// block of at least that size, aligned to kWorkspaceAlignment.
constexpr std::size_t kWorkspaceAlignment = 64;

template <class T>
std::size_t workspace_bytes(const RnnForward<T>&, const Threads&);
template <class T>
std::size_t workspace_bytes(const RnnBackward<T>&, const Threads&);
template <class T>
std::size_t workspace_bytes(const RnnInputGradient<T>&, const Threads&);
template <class T>
std::size_t workspace_bytes(const RnnWeightGradient<T>&, const Threads&);

// T is float, double, Half or BFloat16. Same arguments, any number of threads:
// same bits. Half types: inputs exact, arithmetic and the carried state in
// float, one rounding (to nearest even) where a value is stored.
template <class T>
void rnn_forward(const RnnForward<T>&, const Threads&, void* workspace);
template <class T>
void rnn_backward(const RnnBackward<T>&, const Threads&, void* workspace);
template <class T>
void rnn_input_gradient(const RnnInputGradient<T>&, const Threads&,
                        void* workspace);
template <class T>
void rnn_weight_gradient(const RnnWeightGradient<T>&, const Threads&,
                         void* workspace);

// For the same weights in many calls (a stream of single steps): packs them
// once into packed_bytes() bytes, aligned like a workspace.
template <class T>
std::size_t packed_bytes(const RnnForward<T>&, const Threads&);
template <class T>
void rnn_pack(const RnnForward<T>&, const Threads&, void* packed);

}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_RNN_H_
