#include "python/rnn_stream.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "core/isa.h"
#include "core/rnn.h"
#include "python/arrays.h"
#include "python/call.h"
#include "python/rnn_arguments.h"

namespace fused_rnn {
namespace python {
namespace {

// All that depends on the element type.
class Steps {
 public:
  virtual ~Steps() = default;
  // Makes ready for such threads, and for the instruction set in use, as far as
  // it is not.
  virtual void prepare(const Threads& threads) = 0;
  // The states over themselves, from x, rows `x_row` elements apart. No GIL
  // needed.
  virtual void step(const void* x, Index x_row, const Threads& threads) = 0;
};

template <class T>
class TypedSteps : public Steps {
 public:
  // `cell_state` may be null.
  TypedSteps(const RnnShape& shape, const RnnOptions& options,
             const RnnWeights<T>& weights, T* state, T* cell_state) {
    call_.shape = shape;
    call_.options = options;
    call_.weights = weights;
    call_.state = {state, shape.units};
    call_.h0 = {state, shape.units};
    call_.cell_state = {cell_state, shape.units};
    call_.c0 = {cell_state, shape.units};
  }

  // Layouts depend on the number of threads and the instruction set.
  void prepare(const Threads& threads) override {
    if (threads.count == threads_ && active_isa() == isa_) return;
    call_.packed = nullptr;
    packed_ = AlignedBytes(packed_bytes(call_, threads));
    rnn_pack(call_, threads, packed_.get());
    call_.packed = packed_.get();
    workspace_ = AlignedBytes(workspace_bytes(call_, threads));
    threads_ = threads.count;
    isa_ = active_isa();
  }

  void step(const void* x, Index x_row, const Threads& threads) override {
    prepare(threads);
    call_.x = {static_cast<const T*>(x), 0, x_row};
    rnn_forward(call_, threads, workspace_.get());
  }

 private:
  RnnForward<T> call_;
  AlignedBytes packed_, workspace_;
  int threads_ = 0;
  std::string isa_;
};

// Writes `rows` rows of `width` elements without gaps.
void copy_rows(const Argument& from, Index rows, Index width, const Result& to) {
  const Index row_bytes = width * from.item_size();
  const Index stride = rows > 1 ? from.stride(0) * from.item_size() : 0;
  for (Index i = 0; i < rows; ++i) {
    std::memmove(to.data<char>() + i * row_bytes,
                 from.data<const char>() + i * stride,
                 static_cast<std::size_t>(row_bytes));
  }
}

Result copy_of(const Argument& from) {
  if (from.rank() == 1) {
    const Result to(from, {from.size(0)});
    copy_rows(from, 1, from.size(0), to);
    return to;
  }
  const Result to(from, {from.size(0), from.size(1)});
  copy_rows(from, from.size(0), from.size(1), to);
  return to;
}

class RnnStream {
 public:
  RnnStream(Cell cell, const char* name, py::handle kernel,
            py::handle recurrent_kernel, py::handle bias, bool reset_after,
            Index batch, py::handle activation,
            py::handle recurrent_activation)
      : RnnStream(name,
                  options_of(cell, reset_after, activation,
                             recurrent_activation),
                  kernel, recurrent_kernel, bias, batch) {}

  py::object step(py::handle x_) {
    const Argument x("x_t", x_, kernel());
    Index row = 0;
    if (x.rank() == 1 && shape_.batch == 1) {
      x.require_shape("[input size]", {shape_.inputs});
    } else {
      x.require_shape("[batch size, input size]",
                      {shape_.batch, shape_.inputs});
      row = x.stride(0);
    }
    if (busy_.test_and_set(std::memory_order_acquire)) {
      throw std::runtime_error("another thread is inside this " +
                               std::string(name_) +
                               "; give each thread its own");
    }
    const Release release{busy_};
    with_threads([&](const Threads& threads) {
      steps_->step(x.data<const void>(), row, threads);
    });
    return state_.object();
  }

  void reset(py::handle h0, py::handle c0) {
    // Both are checked before either is changed.
    const Argument h = first_state("h0", h0), c = first_state("c0", c0);
    set(state_, h);
    if (cell_state_) set(*cell_state_, c);
  }

  py::object state() const { return state_.object(); }
  py::object cell_state() const { return cell_state_->object(); }

 private:
  struct Release {
    std::atomic_flag& flag;
    ~Release() { flag.clear(std::memory_order_release); }
  };

  // Of the caller's weights: what is kept is a copy.
  RnnStream(const char* name, const RnnOptions& options,
            const WeightArguments& weights, Index batch)
      : name_(name),
        kernel_(copy_of(weights.kernel)),
        recurrent_kernel_(copy_of(weights.recurrent_kernel)),
        state_(weights.kernel, {batch, weights.units}) {
    require_valid_isa();
    shape_ = {1, batch, weights.inputs, weights.units};
    if (weights.bias) bias_ = copy_of(weights.bias);
    if (has_cell_state(options)) {
      cell_state_ = Result(weights.kernel, {batch, weights.units});
    }
    reset(py::none(), py::none());
    const WeightArguments own(options, kernel_.object(),
                              recurrent_kernel_.object(),
                              bias_ ? bias_->object() : py::none(), nullptr);
    with_type(own.kernel.dtype(), [&](auto zero) {
      using T = decltype(zero);
      steps_ = std::make_unique<TypedSteps<T>>(
          shape_, options, own.views<T>(options), state_.data<T>(),
          cell_state_ ? cell_state_->data<T>() : nullptr);
    });
    with_threads([&](const Threads& threads) { steps_->prepare(threads); });
  }
  RnnStream(const char* name, const RnnOptions& options, py::handle kernel,
            py::handle recurrent_kernel, py::handle bias, Index batch)
      : RnnStream(name, options,
                  WeightArguments(options, kernel, recurrent_kernel, bias,
                                  nullptr),
                  require_batch(batch)) {}

  static RnnOptions options_of(Cell cell, bool reset_after,
                               py::handle activation,
                               py::handle recurrent_activation) {
    RnnOptions options;
    options.cell = cell;
    options.reset_after = reset_after;
    options.activation = parse_activation("activation", activation);
    options.recurrent_activation =
        parse_activation("recurrent_activation", recurrent_activation);
    return options;
  }
  static Index require_batch(Index batch) {
    if (batch < 0) {
      throw py::value_error("batch must not be negative, got " +
                            std::to_string(batch));
    }
    return batch;
  }
  Argument kernel() const { return Argument("kernel", kernel_.object()); }
  Argument first_state(const char* name, py::handle value) const {
    const Argument state = Argument::optional(name, value, kernel());
    state.require_shape("[batch size, units]", {shape_.batch, shape_.units});
    return state;
  }
  void set(const Result& state, const Argument& value) const {
    if (!value) return state.fill_zero();
    copy_rows(value, shape_.batch, shape_.units, state);
  }

  const char* const name_;
  RnnShape shape_;
  const Result kernel_, recurrent_kernel_;
  std::optional<Result> bias_;
  const Result state_;
  std::optional<Result> cell_state_;
  std::unique_ptr<Steps> steps_;
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

// A class for each cell, for Python to tell apart.
template <Cell kCell>
class StreamOf : public RnnStream {
 public:
  using RnnStream::RnnStream;
};

template <Cell kCell>
py::class_<StreamOf<kCell>> bind_stream(py::module_& m, const char* name) {
  using Stream = StreamOf<kCell>;
  return py::class_<Stream>(m, name)
      .def(py::init([name](py::handle kernel, py::handle recurrent_kernel,
                           py::handle bias, bool reset_after, Index batch,
                           py::handle activation,
                           py::handle recurrent_activation) {
        return new Stream(kCell, name, kernel, recurrent_kernel, bias,
                          reset_after, batch, activation, recurrent_activation);
      }))
      .def("step", &Stream::step, py::arg("x_t"))
      .def_property_readonly("state", &Stream::state);
}

// For streams with one state.
template <Cell kCell>
void bind_reset(py::class_<StreamOf<kCell>> stream) {
  stream.def(
      "reset",
      [](StreamOf<kCell>& self, py::handle h0) { self.reset(h0, py::none()); },
      py::arg("h0") = py::none());
}

}  // namespace

void bind_streams(py::module_& m) {
  bind_reset(bind_stream<Cell::kGru>(m, "GRUStream"));
  bind_reset(bind_stream<Cell::kSimpleRnn>(m, "SimpleRNNStream"));
  using LstmStream = StreamOf<Cell::kLstm>;
  bind_stream<Cell::kLstm>(m, "LSTMStream")
      .def("reset", &LstmStream::reset, py::arg("h0") = py::none(),
           py::arg("c0") = py::none())
      .def_property_readonly("cell_state", &LstmStream::cell_state);
}

}  // namespace python
}  // namespace fused_rnn
