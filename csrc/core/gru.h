// THE contract of the core: a gated recurrent unit over a sequence, forward
// and backward. The cell step is the case of one step.
//
// Sizes: T steps, B batch rows, I inputs, H units.
// Gates are always in Keras' order: update z (TensorFlow's u), reset r,
// candidate c. With ∘ elementwise, f the recurrent activation (sigmoid) and
// g the activation (tanh), for h = h_{t-1}:
//
//   reset before (TF GRUBlockCell, Keras reset_after=False):
//     z = f(x·K_z + h·R_z + b_z)      r = f(x·K_r + h·R_r + b_r)
//     c = g(x·K_c + (r∘h)·R_c + b_c)  h_t = z∘h + (1−z)∘c
//   reset after (Keras' default, cuDNN, PyTorch):
//     gh_g = h·R_g + rb_g
//     z = f(x·K_z + b_z + gh_z)       r = f(x·K_r + b_r + gh_r)
//     c = g(x·K_c + b_c + r∘gh_c)     h_t = z∘h + (1−z)∘c
//
// With a recurrent dropout mask m (one a gate, fixed over time) every h·R_g
// above reads (h∘m_g)·R_g, and (r∘h)·R_c reads (r∘h∘m_c)·R_c.
//
// Masks, as Keras means them: at a masked step nothing is computed, the state
// is carried, the output repeats the previous output (zeros before the first
// valid step) or is zero with zero_output_for_mask. What lies in x at a masked
// step reaches nothing. Reserve and gate gradients of masked steps are zeros.
//
// The core trusts its arguments: the caller has checked sizes and pointers.
// No pointer is kept after a call. Outputs must not overlap inputs, except
// where a field says so. Rows are contiguous (last stride 1). A pointer to
// something with no elements may be null only where null has no meaning of its
// own.
#ifndef FUSED_RNN_CORE_GRU_H_
#define FUSED_RNN_CORE_GRU_H_

#include "core/parallel.h"
#include "core/types.h"

namespace fused_rnn {

constexpr int kUpdate = 0;
constexpr int kReset = 1;
constexpr int kCandidate = 2;
constexpr int kGates = 3;
// A fourth value a unit and step, reset after only. In the reserve: gh_c. In
// the gate gradients: that of gh_c, d_c̄∘r.
constexpr int kRecurrentCandidate = 3;
constexpr int kReserve = 4;

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

struct GruShape {
  Index steps = 0;   // T
  Index batch = 0;   // B
  Index inputs = 0;  // I
  Index units = 0;   // H
};

struct GruOptions {
  bool reset_after = false;
  bool zero_output_for_mask = false;
  Activation activation = Activation::kTanh;               // g
  Activation recurrent_activation = Activation::kSigmoid;  // f
};

// Each gate's matrix lies anywhere in what the caller stores: element (k, j)
// of gate g at kernel[g].data[k * kernel[g].row + j]. Keras' kernel [I, 3H]
// is three views 3H apart in rows and H apart in columns; the block cell's
// w_ru [I+H, 2H] and w_c [I+H, H] are views too.
template <class T>
struct GruWeights {
  Rows<const T> kernel[kGates];     // [I, H]
  Rows<const T> recurrent[kGates];  // [H, H]
  const T* bias[kGates] = {};            // [H]; null: none
  const T* recurrent_bias[kGates] = {};  // [H]; null: none; reset after only
};

// Element (t, b) at data[t * step + b * row]; 0 means masked. Null: no mask.
struct Mask {
  const std::uint8_t* data = nullptr;
  Index step = 0;
  Index row = 0;
};

// Which gate gradient belongs to a gate's recurrent product.
inline int recurrent_gate(int gate, const GruOptions& options) {
  return gate == kCandidate && options.reset_after ? kRecurrentCandidate : gate;
}

template <class T>
struct GruForward {
  GruShape shape;
  GruOptions options;
  Sequence<const T> x;   // [T, B, I]
  Rows<const T> h0;      // [B, H]; null: zeros
  GruWeights<T> weights;
  Mask mask;
  Rows<const T> recurrent_dropout[kGates];  // [B, H]; null: none (all or none)

  // From gru_pack with the same weights, shape, options, number of threads and
  // instruction set; null: weights are packed as far as the call needs it.
  const void* packed = nullptr;

  Sequence<T> outputs;  // [T, B, H]; null: not wanted
  Rows<T> state;        // [B, H]; the last state; null: not wanted; may be h0
  // [T, B, H] z, r, c and, reset after only, gh_c. data null in inference; any
  // one may be null.
  Sequence<T> reserve[kReserve];
};

template <class T>
struct GruBackward {
  GruShape shape;  // inputs unused
  GruOptions options;
  GruWeights<T> weights;   // recurrent only
  Rows<const T> h0;        // [B, H]; null: zeros
  Sequence<const T> outputs;  // [T, B, H] of the forward pass
  Sequence<const T> reserve[kReserve];  // [T, B, H]; z, r, c; gh_c reset after
  Mask mask;
  Rows<const T> recurrent_dropout[kGates];

  // Incoming gradients; null: zeros.
  Sequence<const T> d_outputs;          // [T, B, H]
  Rows<const T> d_state;                // [B, H]
  Sequence<const T> d_reserve[kGates];  // [T, B, H] arriving at z, r, c

  Rows<T> d_h0;  // [B, H]; null: not wanted; may be h0 or d_state
  // [T, B, H] d_z̄, d_r̄, d_c̄ (before activation) and, reset after only,
  // d_c̄∘r. All wanted; may be reserve, each its own.
  Sequence<T> d_gates[kReserve];
};

// d_x[t, b] = Σ_gates d_gate·kernelᵀ, zero at masked steps.
template <class T>
struct GruInputGradient {
  GruShape shape;
  GruWeights<T> weights;  // kernel only
  Mask mask;
  Sequence<const T> d_gates[kGates];  // [T, B, H] z, r, c of GruBackward
  Sequence<T> d_x;                    // [T, B, I]
};

// The gradients of all weights and biases, summed over valid steps and rows in
// an order that does not depend on the number of threads. Null: not wanted.
template <class T>
struct GruWeightGradient {
  GruShape shape;
  GruOptions options;
  Sequence<const T> x;        // [T, B, I]
  Rows<const T> h0;           // [B, H]; null: zeros
  Sequence<const T> outputs;  // [T, B, H]
  Sequence<const T> reset;    // [T, B, H] r of the reserve; reset before only
  Mask mask;
  Rows<const T> recurrent_dropout[kGates];
  Sequence<const T> d_gates[kReserve];  // as GruBackward wrote them

  Rows<T> d_kernel[kGates];     // [I, H]
  Rows<T> d_recurrent[kGates];  // [H, H]
  T* d_bias[kGates] = {};            // [H]
  T* d_recurrent_bias[kGates] = {};  // [H]; reset after only
};

// Scratch bytes that a call needs with so many threads. The caller passes a
// block of at least that size, aligned to kWorkspaceAlignment.
constexpr std::size_t kWorkspaceAlignment = 64;

template <class T>
std::size_t workspace_bytes(const GruForward<T>&, const Threads&);
template <class T>
std::size_t workspace_bytes(const GruBackward<T>&, const Threads&);
template <class T>
std::size_t workspace_bytes(const GruInputGradient<T>&, const Threads&);
template <class T>
std::size_t workspace_bytes(const GruWeightGradient<T>&, const Threads&);

// T is float, double, Half or BFloat16. Same arguments, any number of threads:
// same bits. Half types: inputs exact, arithmetic and the carried state in
// float, one rounding (to nearest even) where a value is stored.
template <class T>
void gru_forward(const GruForward<T>&, const Threads&, void* workspace);
template <class T>
void gru_backward(const GruBackward<T>&, const Threads&, void* workspace);
template <class T>
void gru_input_gradient(const GruInputGradient<T>&, const Threads&,
                        void* workspace);
template <class T>
void gru_weight_gradient(const GruWeightGradient<T>&, const Threads&,
                         void* workspace);

// For the same weights in many calls (a stream of single steps): packs them
// once into packed_bytes() bytes, aligned like a workspace.
template <class T>
std::size_t packed_bytes(const GruForward<T>&, const Threads&);
template <class T>
void gru_pack(const GruForward<T>&, const Threads&, void* packed);

}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_GRU_H_
