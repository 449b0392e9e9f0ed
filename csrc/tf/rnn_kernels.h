// Base of the sequence kernels: attributes, checks, views of the arguments.
#ifndef FUSED_RNN_TF_RNN_KERNELS_H_
#define FUSED_RNN_TF_RNN_KERNELS_H_

#include <initializer_list>

#include "tf/context.h"
#include "tf/device.h"
#include "tf/rnn_sequence.h"

namespace fused_rnn::rnn_ops {

class RnnKernel : public tensorflow::OpKernel {
 public:
  // The op's name says which cell it is. `device` is what Device::check says.
  RnnKernel(tensorflow::OpKernelConstruction* ctx, SequenceOp op,
            const absl::Status& device);

  // Checks the inputs and computes.
  void Compute(tensorflow::OpKernelContext* ctx) final;

 protected:
  virtual void compute(tensorflow::OpKernelContext* ctx, Sizes<Index> sizes,
                       const RnnShape& shape) = 0;

  // Allocates an output, or gives it the memory of one of `replaced` if nobody
  // else needs that. Null where the op has no such output.
  absl::Status allocate(tensorflow::OpKernelContext* ctx,
                        const Sizes<Index>& sizes, Arg output,
                        std::initializer_list<Arg> replaced,
                        tensorflow::Tensor** tensor) const;

  // Null where the op lacks the argument.
  template <class T>
  const CoreType<T>* data(tensorflow::OpKernelContext* ctx, Arg input) const {
    const int index = at_.input(input);
    return index < 0 ? nullptr : input_data<T>(ctx->input(index));
  }
  template <class T>
  static CoreType<T>* data(tensorflow::Tensor* output) {
    return output ? output_data<T>(output) : nullptr;
  }

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

  // The slots of a step in the reserve and in the gate gradients. A GRU that
  // resets before keeps r apart, in the last one, where it outlives a gradient
  // that is computed in place.
  static constexpr int kKeptReset = 3;
  bool keeps_reset() const {
    return at_.cell == Cell::kGru && !options_.reset_after;
  }
  template <class Element>
  Sequence<Element> slot(Element* data, const RnnShape& shape,
                         int index) const {
    const Index row = slot_count(at_.cell) * shape.units;
    return {data + index * shape.units, shape.batch * row, row};
  }
  // Slots that hold gates.
  int gates() const { return gate_gradient_count(options_); }
  // The reserve, and beside it the cell states. Null where there is none.
  template <class Element>
  void set_reserve(Element* gates_data, Element* cell_states,
                   const RnnShape& shape, Sequence<Element>* reserve) const {
    for (int g = 0; gates_data && g < gates(); ++g) {
      reserve[g] = slot(gates_data, shape,
                        g == kReset && keeps_reset() ? kKeptReset : g);
    }
    if (cell_states) {
      reserve[kCellState] = {cell_states, shape.batch * shape.units,
                             shape.units};
    }
  }
  template <class Element>
  void set_gate_gradients(Element* data, const RnnShape& shape,
                          Sequence<Element>* d_gates) const {
    for (int g = 0; g < gates(); ++g) d_gates[g] = slot(data, shape, g);
  }

  // Each gate's columns of a matrix like the kernels.
  template <class Element>
  void set_columns(Element* data, const RnnShape& shape,
                   Rows<Element>* gates) const {
    const int count = gate_count(at_.cell);
    for (int g = 0; data && g < count; ++g) {
      gates[g] = {data + g * shape.units, count * shape.units};
    }
  }
  template <class Element>
  void set_bias(Element* data, const RnnShape& shape, Element** bias,
                Element** recurrent_bias) const {
    const int count = gate_count(at_.cell);
    for (int g = 0; data && g < count; ++g) {
      bias[g] = data + g * shape.units;
      if (options_.reset_after) {
        recurrent_bias[g] = data + (count + g) * shape.units;
      }
    }
  }

  // States, masks: what most calls of the core have.
  template <class T>
  Rows<const CoreType<T>> rows(tensorflow::OpKernelContext* ctx, Arg input,
                               const RnnShape& shape) const {
    return {data<T>(ctx, input), shape.units};
  }
  Mask mask(tensorflow::OpKernelContext* ctx, const RnnShape& shape) const;
  template <class T>
  void set_dropout(tensorflow::OpKernelContext* ctx, const RnnShape& shape,
                   Rows<const CoreType<T>>* gates) const {
    if (at_.input(Arg::kDropout) < 0) return;
    // The core recognises masks that are the same.
    const bool shared = ctx->input(at_.input(Arg::kDropout)).dim_size(0) == 1;
    const auto* masks = data<T>(ctx, Arg::kDropout);
    for (int g = 0; g < gate_count(at_.cell); ++g) {
      gates[g] = {masks + (shared ? 0 : g * shape.batch * shape.units),
                  shape.units};
    }
  }

  SequenceAttributes at_;
  RnnOptions options_;

 private:
  // Holds every input against the sizes that those which state them state.
  absl::Status check_inputs(tensorflow::OpKernelContext* ctx,
                            Sizes<Index>* sizes) const;
};

}  // namespace fused_rnn::rnn_ops

#endif  // FUSED_RNN_TF_RNN_KERNELS_H_
