// What kernels of the block cells share: attributes, checks, and how an
// argument becomes a pointer of the core's.
#ifndef FUSED_RNN_TF_BLOCK_CELL_KERNELS_H_
#define FUSED_RNN_TF_BLOCK_CELL_KERNELS_H_

#include "tf/block_cells.h"
#include "tf/context.h"
#include "tf/device.h"

namespace fused_rnn {

class BlockKernel : public tensorflow::OpKernel {
 public:
  BlockKernel(tensorflow::OpKernelConstruction* ctx, const BlockOp& op);

 protected:
  // Holds every input against the sizes that x and the first state have.
  absl::Status check_inputs(tensorflow::OpKernelContext* ctx,
                            RnnShape* shape) const;

  // How many of the steps of x are computed, where an input says so.
  absl::Status read_steps(tensorflow::OpKernelContext* ctx, Index* steps) const;

  // Allocates an output, in the memory of an input of these roles where
  // TensorFlow allows.
  absl::Status allocate(tensorflow::OpKernelContext* ctx, int output,
                        const RnnShape& shape, std::initializer_list<Role> over,
                        tensorflow::Tensor** tensor) const;

  // As values of the element type, which TensorFlow's kernels take them for: a
  // state cut off is then equal to the bound, and its gradient knows.
  template <class T>
  RnnOptions options() const {
    const auto rounded = [](float value) {
      return static_cast<double>(static_cast<float>(static_cast<T>(value)));
    };
    RnnOptions options;
    options.cell = op_.cell;
    options.forget_bias = rounded(forget_bias_);
    options.cell_clip = cell_clip_ > 0 ? rounded(cell_clip_) : 0;
    return options;
  }

  bool used(const Argument& argument) const {
    return argument.role != Role::kPeephole || use_peephole_;
  }

  const BlockOp& op_;

 private:
  bool use_peephole_ = false;
  float forget_bias_ = 0;
  float cell_clip_ = 0;
};

// The part of a batch's rows, or of a sequence's, that a gate has in an
// argument: the i-th of those side by side.
template <class Element>
Sequence<Element> gate_rows(const Argument& argument, Element* data, int i,
                            const RnnShape& shape) {
  const Index row = argument.count * shape.units;
  return {data + i * shape.units, shape.batch * row, row};
}

// Weights, biases and peepholes; other arguments are left alone.
template <class T>
void set_weights(const Argument& argument, const T* data,
                 const RnnShape& shape, RnnWeights<T>* weights) {
  const Index row = argument.count * shape.units;
  for (int i = 0; i < argument.count; ++i) {
    const int gate = argument.gates[i];
    const T* first = data + i * shape.units;
    if (argument.role == Role::kWeights) {
      weights->kernel[gate] = {first, row};
      weights->recurrent[gate] = {first + shape.inputs * row, row};
    } else if (argument.role == Role::kBias) {
      weights->bias[gate] = first;
    } else if (argument.role == Role::kPeephole) {
      weights->peephole[gate] = first;
    }
  }
}

}  // namespace fused_rnn

#endif  // FUSED_RNN_TF_BLOCK_CELL_KERNELS_H_
