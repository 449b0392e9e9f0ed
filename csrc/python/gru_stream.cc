#include "python/gru_stream.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "core/rnn.h"
#include "core/isa.h"
#include "python/arrays.h"
#include "python/call.h"
#include "python/gru_arguments.h"

namespace fused_rnn {
namespace python {
namespace {

// All that depends on the element type.
class Steps {
 public:
  virtual ~Steps() = default;
  // The state over itself, from x, rows `x_row` elements apart. No GIL needed.
  virtual void step(const void* x, Index x_row, const Threads& threads) = 0;
};

template <class T>
class TypedSteps : public Steps {
 public:
  TypedSteps(const RnnShape& shape, const RnnOptions& options,
             const RnnWeights<T>& weights, T* state) {
    call_.shape = shape;
    call_.options = options;
    call_.weights = weights;
    call_.state = {state, shape.units};
    call_.h0 = {state, shape.units};
  }

  void step(const void* x, Index x_row, const Threads& threads) override {
    if (threads.count != threads_ || active_isa() != isa_) prepare(threads);
    call_.x = {static_cast<const T*>(x), 0, x_row};
    rnn_forward(call_, threads, workspace_.get());
  }

 private:
  // Layouts depend on the number of threads and the instruction set.
  void prepare(const Threads& threads) {
    call_.packed = nullptr;
    packed_ = AlignedBytes(packed_bytes(call_, threads));
    rnn_pack(call_, threads, packed_.get());
    call_.packed = packed_.get();
    workspace_ = AlignedBytes(workspace_bytes(call_, threads));
    threads_ = threads.count;
    isa_ = active_isa();
  }

  RnnForward<T> call_;
  AlignedBytes packed_, workspace_;
  int threads_ = 0;
  std::string isa_;
};

Result copy_of(const Argument& from, std::initializer_list<Index> shape) {
  const Result to(from, shape);
  const Index rows = shape.size() == 2 ? *shape.begin() : 1;
  const Index row_bytes = *(shape.end() - 1) * from.item_size();
  const Index stride =
      shape.size() == 2 ? from.stride(0) * from.item_size() : 0;
  for (Index i = 0; i < rows; ++i) {
    std::memcpy(to.data<char>() + i * row_bytes,
                from.data<const char>() + i * stride,
                static_cast<std::size_t>(row_bytes));
  }
  return to;
}

class GruStream {
 public:
  GruStream(py::handle kernel, py::handle recurrent_kernel, py::handle bias,
            bool reset_after, Index batch, py::handle activation,
            py::handle recurrent_activation)
      : GruStream(GruWeightArguments(kernel, recurrent_kernel, bias,
                                     reset_after, nullptr),
                  batch, activation, recurrent_activation) {}

  py::object step(py::handle x_) {
    const Argument x("x_t", x_, state_argument());
    Index row = 0;
    if (x.rank() == 1 && batch_ == 1) {
      x.require_shape("[input size]", {inputs_});
    } else {
      x.require_shape("[batch size, input size]", {batch_, inputs_});
      row = x.stride(0);
    }
    if (busy_.test_and_set(std::memory_order_acquire)) {
      throw std::runtime_error(
          "another thread is inside this GRUStream; give each thread its own");
    }
    const Release release{busy_};
    without_gil([&] {
      const CallThreads threads;
      steps_->step(x.data<const void>(), row, threads.threads());
    });
    return state_.object();
  }

  void reset(py::handle h0_) {
    if (h0_.is_none()) return state_.fill_zero();
    const Argument h0("h0", h0_, state_argument());
    h0.require_shape("[batch size, units]", {batch_, units_});
    const Index row_bytes = units_ * h0.item_size();
    for (Index b = 0; b < batch_; ++b) {
      std::memmove(state_.data<char>() + b * row_bytes,
                   h0.data<const char>() + b * h0.stride(0) * h0.item_size(),
                   static_cast<std::size_t>(row_bytes));
    }
  }

  py::object state() const { return state_.object(); }

 private:
  struct Release {
    std::atomic_flag& flag;
    ~Release() { flag.clear(std::memory_order_release); }
  };

  GruStream(const GruWeightArguments& w, Index batch, py::handle activation,
            py::handle recurrent_activation)
      : batch_(require_batch(batch)),
        inputs_(w.inputs),
        units_(w.units),
        kernel_(copy_of(w.kernel, {w.inputs, kGruGates * w.units})),
        recurrent_kernel_(
            copy_of(w.recurrent_kernel, {w.units, kGruGates * w.units})),
        state_(w.kernel, {batch, w.units}) {
    require_valid_isa();
    state_.fill_zero();
    py::object bias = py::none();
    if (w.bias) {
      bias_ = w.reset_after ? copy_of(w.bias, {2, kGruGates * w.units})
                            : copy_of(w.bias, {kGruGates * w.units});
      bias = bias_->object();
    }
    const GruWeightArguments own(kernel_.object(), recurrent_kernel_.object(),
                                 bias, w.reset_after, nullptr);
    RnnShape shape;
    shape.steps = 1;
    shape.batch = batch;
    shape.inputs = inputs_;
    shape.units = units_;
    RnnOptions options;
    options.reset_after = w.reset_after;
    options.activation = parse_activation("activation", activation);
    options.recurrent_activation =
        parse_activation("recurrent_activation", recurrent_activation);
    with_type(own.kernel.dtype(), [&](auto zero) {
      using T = decltype(zero);
      steps_ = std::make_unique<TypedSteps<T>>(shape, options, own.views<T>(),
                                               state_.data<T>());
    });
  }

  static Index require_batch(Index batch) {
    if (batch < 0) {
      throw py::value_error("batch must not be negative, got " +
                            std::to_string(batch));
    }
    return batch;
  }
  Argument state_argument() const {
    return Argument("kernel", kernel_.object());
  }

  const Index batch_, inputs_, units_;
  const Result kernel_, recurrent_kernel_;
  std::optional<Result> bias_;
  const Result state_;
  std::unique_ptr<Steps> steps_;
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

}  // namespace

void bind_gru_stream(py::module_& m) {
  py::class_<GruStream>(m, "GRUStream")
      .def(py::init<py::handle, py::handle, py::handle, bool, Index, py::handle,
                    py::handle>())
      .def("step", &GruStream::step, py::arg("x_t"))
      .def("reset", &GruStream::reset, py::arg("h0") = py::none())
      .def_property_readonly("state", &GruStream::state);
}

}  // namespace python
}  // namespace fused_rnn
