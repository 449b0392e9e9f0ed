// The kernels of the core on a GPU: their arguments and their launches.
//
// Rows of scratch have their own length; Rows and Sequence are the caller's.
// A null pointer to something that is read means zeros, to something that is
// written that nobody wants it.
#ifndef FUSED_RNN_CORE_CUDA_KERNELS_H_
#define FUSED_RNN_CORE_CUDA_KERNELS_H_

#include "core/cuda/rnn_cuda.h"

namespace fused_rnn {
namespace cuda {

// Units that a thread of a gate kernel computes where rows allow it: 16 bytes
// of the type that is computed in, the widest access there is.
template <class T>
constexpr int kWide = 16 / static_cast<int>(sizeof(Compute<T>));

// What all gate kernels of a step have.
struct StepShape {
  int batch = 0;
  int units = 0;
  // Whether units and all rows are multiples of kWide and aligned to it.
  bool wide = false;
  RnnOptions options;
  const std::uint8_t* mask = nullptr;  // of this step
  Index mask_row = 0;
};

// Gates, reserve and gate gradients are the first of these that the cell has.
template <class T>
struct ForwardStep {
  using C = Compute<T>;
  StepShape shape;
  Rows<const C> gx[kMaxGates];  // [B, H], without biases
  Rows<const C> gh[kMaxGates];
  const T* bias[kMaxGates] = {};
  const T* recurrent_bias[kMaxGates] = {};
  const T* peephole[kMaxGates] = {};
  Rows<const C> h_prev;
  Rows<C> h_next;        // may be h_prev
  Rows<const C> c_prev;  // LSTM only
  Rows<C> c_next;        // may be c_prev; LSTM only
  Rows<C> z;        // from one kernel to the other, reset before only
  Rows<C> reset_h;  // r∘h_prev∘m_c, reset before only
  Rows<const T> dropout[kMaxGates];
  Rows<C> dropped[kMaxGates];  // h_next∘m_g
  Rows<T> output;
  Rows<const T> previous_output;  // what a masked step repeats
  Rows<T> reserve[kMaxReserve];
  Rows<T> state;       // h_next once more
  Rows<T> cell_state;  // c_next once more
};

// What follows a step's first product (stage 0) or, reset before only, its
// second: reset_h of the gates, then the rest.
template <class T>
Error launch_forward(const ForwardStep<T>&, int stage, void* stream);

template <class T>
struct BackwardStep {
  using C = Compute<T>;
  StepShape shape;
  Index step = 0;
  // [B], the last valid step before this one or -1; null: the step before.
  const int* previous = nullptr;
  Sequence<const T> outputs;
  Rows<const T> h0;
  Sequence<const T> cell_states;  // c_t; LSTM only
  Rows<const T> c0;
  const T* peephole[kMaxGates] = {};
  // In: what reaches h_t from later steps; out: what h_{t-1} gets from this
  // step, without the recurrent products. May be each other. Out is null where
  // that is nothing: not of a GRU.
  Rows<const C> carry_in;
  Rows<C> carry;
  // With dropout, the recurrent products of the step after, each to be
  // multiplied by its mask and added to carry_in.
  Rows<const C> product[kMaxGates];
  Rows<const T> dropout[kMaxGates];
  // What reaches c_t from later steps, then what c_{t-1} gets; LSTM only.
  Rows<C> d_cell;
  Rows<C> output_carry;     // gradients of outputs that masked steps repeated
  Rows<const C> d_reset_h;  // reset before, second kernel
  Rows<C> operand[kMaxGates];  // gate gradients for the products
  Rows<const T> d_output;
  Rows<const T> reserve[kMaxReserve];
  Rows<const T> d_reserve[kMaxReserve];
  Rows<T> d_gates[kMaxGates];
};

// Stage 0, all of the step or, reset before, z and the candidate; then, stage
// 1, the reset gate.
template <class T>
Error launch_backward(const BackwardStep<T>&, int stage, void* stream);
// What reaches the first states; null: not wanted.
template <class T>
Error launch_backward_states(const BackwardStep<T>&, Rows<T> d_h0, Rows<T> d_c0,
                             void* stream);

// Rows (t, b) of a sequence, one after another in time: copied, converted,
// multiplied, and zero where masked.
template <class T, class To>
struct Gather {
  Index step = 0;  // the first
  int steps = 0;
  int batch = 0;
  int width = 0;
  Sequence<const T> from;
  double otherwise = 0;  // where there is no `from`
  Mask mask;
  // With `shifted` a row is that of the step before, of `previous` [T, B] if
  // that is there, and of `first` where there is none.
  bool shifted = false;
  const int* previous = nullptr;
  Rows<const T> first;
  Sequence<const T> scale;  // same steps
  Rows<const T> row_scale;  // [B]
  Rows<To> to;              // [steps * B]
};
template <class T, class To>
Error launch_gather(const Gather<T, To>&, void* stream);

// The other way: rows of scratch to a sequence, zeros where masked or if there
// are none.
template <class T>
struct Scatter {
  Index step = 0;
  int steps = 0;
  int batch = 0;
  int width = 0;
  Rows<const Compute<T>> from;  // [steps * B]
  Mask mask;
  Sequence<T> to;
};
template <class T>
Error launch_scatter(const Scatter<T>&, void* stream);

// previous[t * batch + b] = the last valid step before t, or -1.
struct PreviousValid {
  int steps = 0;
  int batch = 0;
  Mask mask;
  int* previous = nullptr;
};
Error launch_previous_valid(const PreviousValid&, void* stream);

}  // namespace cuda
}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_CUDA_KERNELS_H_
