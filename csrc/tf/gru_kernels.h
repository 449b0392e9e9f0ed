// Base of the sequence kernels: attributes, checks, views of the arguments.
#ifndef FUSED_RNN_TF_GRU_KERNELS_H_
#define FUSED_RNN_TF_GRU_KERNELS_H_

#include <array>
#include <string>

#include "tf/context.h"
#include "tf/device.h"
#include "tf/gru_sequence.h"

namespace fused_rnn {

class GruKernel : public tensorflow::OpKernel {
 public:
  GruKernel(tensorflow::OpKernelConstruction* ctx, SequenceOp op)
      : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, read_attributes(ctx, op, &at_));
    options_.reset_after = at_.reset_after;
    if (op == SequenceOp::kForward || op == SequenceOp::kGrad) {
      OP_REQUIRES_OK(ctx, ctx->GetAttr("zero_output_for_mask",
                                       &options_.zero_output_for_mask));
      OP_REQUIRES_OK(
          ctx, read_activation(ctx, "activation", &options_.activation));
      OP_REQUIRES_OK(ctx, read_activation(ctx, "recurrent_activation",
                                          &options_.recurrent_activation));
    }
  }

 protected:
  // Holds every input against the sizes that x (or d_gates) and the weights
  // state.
  absl::Status check_inputs(tensorflow::OpKernelContext* ctx,
                            RnnShape* shape) const;

  // A sequence in the caller's layout: x-like ones run as x does, output-like
  // ones in the order of processing.
  template <class Element>
  Sequence<Element> sequence(Element* data, const RnnShape& shape,
                             Index width) const {
    const Index outer = (at_.time_major ? shape.batch : shape.steps) * width;
    return at_.time_major ? Sequence<Element>{data, outer, width}
                          : Sequence<Element>{data, width, outer};
  }
  template <class Element>
  Sequence<Element> reversible(Element* data, const RnnShape& shape,
                               Index width) const {
    const Sequence<Element> forward = sequence(data, shape, width);
    return at_.go_backwards ? reversed(forward, shape.steps) : forward;
  }
  tensorflow::TensorShape sequence_shape(Index steps, Index batch,
                                         Index width) const {
    return at_.time_major ? tensorflow::TensorShape({steps, batch, width})
                          : tensorflow::TensorShape({batch, steps, width});
  }

  // The four slots of a step in the reserve and in the gate gradients. Reset
  // before keeps r apart, in the last one, where it outlives a gradient that
  // is computed in place.
  static constexpr int kKeptReset = 3;
  template <class Element>
  static Sequence<Element> slot(Element* data, const RnnShape& shape,
                                int index) {
    const Index row = kGruReserve * shape.units;
    return {data + index * shape.units, shape.batch * row, row};
  }
  int reserve_slot(int gate) const {
    return gate == kReset && !options_.reset_after ? kKeptReset : gate;
  }
  // Slots in use: reset before has no recurrent candidate.
  int gates() const { return options_.reset_after ? kGruReserve : kGruGates; }

  Mask mask(tensorflow::OpKernelContext* ctx, const RnnShape& shape) const {
    if (at_.mask < 0) return {};
    const void* data = ctx->input(at_.mask).data();
    const Mask forward{static_cast<const std::uint8_t*>(data), 1, shape.steps};
    return at_.go_backwards ? reversed(forward, shape.steps) : forward;
  }
  template <class T>
  Rows<const CoreType<T>> h0(tensorflow::OpKernelContext* ctx,
                             const RnnShape& shape) const {
    if (at_.h0 < 0) return {};
    return {input_data<T>(ctx->input(at_.h0)), shape.units};
  }
  template <class T>
  void set_dropout(tensorflow::OpKernelContext* ctx, const RnnShape& shape,
                   Rows<const CoreType<T>>* gates) const {
    if (at_.dropout < 0) return;
    const auto* data = input_data<T>(ctx->input(at_.dropout));
    for (int g = 0; g < kGruGates; ++g) {
      gates[g] = {data + g * shape.batch * shape.units, shape.units};
    }
  }
  template <class T>
  void set_kernel(tensorflow::OpKernelContext* ctx, const RnnShape& shape,
                  RnnWeights<CoreType<T>>* weights) const {
    const auto* data = input_data<T>(ctx->input(at_.kernel));
    for (int g = 0; g < kGruGates; ++g) {
      weights->kernel[g] = {data + g * shape.units, kGruGates * shape.units};
    }
  }
  template <class T>
  void set_recurrent(tensorflow::OpKernelContext* ctx, const RnnShape& shape,
                     RnnWeights<CoreType<T>>* weights) const {
    const auto* data = input_data<T>(ctx->input(at_.recurrent_kernel));
    for (int g = 0; g < kGruGates; ++g) {
      weights->recurrent[g] = {data + g * shape.units, kGruGates * shape.units};
    }
  }

  SequenceAttributes at_;
  RnnOptions options_;

 private:
  static absl::Status read_activation(tensorflow::OpKernelConstruction* ctx,
                                      const char* name, Activation* activation);
};

}  // namespace fused_rnn

#endif  // FUSED_RNN_TF_GRU_KERNELS_H_
