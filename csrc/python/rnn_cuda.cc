// A sequence on a GPU, forward and backward, on memory that the caller brings.
#include "python/rnn_cuda.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/cuda/library.h"
#include "core/rnn.h"
#include "python/arrays.h"
#include "python/call.h"
#include "python/device_arrays.h"
#include "python/rnn_arguments.h"

namespace fused_rnn {
namespace python {
namespace {

DType dtype_named(const std::string& name) {
  if (name == "float32") return DType::kFloat32;
  if (name == "float64") return DType::kFloat64;
  if (name == "float16") return DType::kFloat16;
  if (name == "bfloat16") return DType::kBFloat16;
  throw py::value_error(
      "dtype must be float32, float64, float16 or bfloat16, got " + name);
}

Index item_of(DType dtype) {
  return dtype == DType::kFloat64 ? 8 : dtype == DType::kFloat32 ? 4 : 2;
}

const cuda::Library& library() {
  std::string error;
  const cuda::Library* const found = cuda::open_library(&error);
  if (!found) throw std::runtime_error(error);
  return *found;
}

void require(const cuda::Error& error) {
  if (error)
    throw std::runtime_error(std::string(error.where) + ": " + error.what);
}

// What both functions are given.
struct Arguments {
  py::dict given;
  DType dtype;
  Index item;
  RnnShape shape;
  RnnOptions options;
  bool go_backwards, time_major;
  DeviceArray x, h0, c0, kernel, recurrent_kernel, bias, mask, dropout, outputs,
      reserve, cell_states, workspace;

  // Not every cell has each of them.
  DeviceArray array(const char* name) const {
    return DeviceArray(
        name, given.contains(name) ? py::object(given[name]) : py::none(),
        item);
  }
  bool flag(const char* name) const { return given[name].cast<bool>(); }

  Arguments(Cell cell, const py::dict& arguments)
      : given(arguments),
        dtype(dtype_named(given["dtype"].cast<std::string>())),
        item(item_of(dtype)),
        go_backwards(flag("go_backwards")),
        time_major(flag("time_major")),
        x(array("x")),
        h0(array("h0")),
        c0(array("c0")),
        kernel(array("kernel")),
        recurrent_kernel(array("recurrent_kernel")),
        bias(array("bias")),
        mask("mask", given["mask"], 1),
        dropout(array("recurrent_dropout_mask")),
        outputs(array("outputs")),
        reserve(array("reserve")),
        cell_states(array("cell_states")),
        workspace("workspace", given["workspace"], 1) {
    options.cell = cell;
    options.reset_after = cell == Cell::kGru && flag("reset_after");
    options.zero_output_for_mask = flag("zero_output_for_mask");
    options.activation = parse_activation("activation", given["activation"]);
    if (cell != Cell::kSimpleRnn)
      options.recurrent_activation = parse_activation(
          "recurrent_activation", given["recurrent_activation"]);
    const GateWords& words = gate_words(options);
    x.require_rank(3, x_words());
    recurrent_kernel.require_rank(2, words.recurrent_kernel);
    kernel.require_rank(2, words.kernel);
    shape.steps = x.size(time_major ? 0 : 1);
    shape.batch = x.size(time_major ? 1 : 0);
    shape.inputs = x.size(2);
    shape.units = recurrent_kernel.size(0);
    require_weights(kernel, recurrent_kernel, bias);
    require_state(h0);
    require_state(c0);
    require_states(outputs);
    mask.require_shape("[batch size, steps]", {shape.batch, shape.steps});
    require_dropout(dropout, options, shape);
    require_gates(reserve);
    cell_states.require_shape("[steps, batch size, units]",
                              {shape.steps, shape.batch, shape.units});
  }

  const char* x_words() const {
    return time_major ? "[steps, batch size, input size]"
                      : "[batch size, steps, input size]";
  }
  void require_weights(const DeviceArray& its_kernel,
                       const DeviceArray& its_recurrent_kernel,
                       const DeviceArray& its_bias) const {
    const GateWords& words = gate_words(options);
    const Index columns = gate_columns(options, shape.units);
    its_kernel.require_shape(words.kernel, {shape.inputs, columns});
    its_recurrent_kernel.require_shape(words.recurrent_kernel,
                                       {shape.units, columns});
    if (resets_after(options))
      its_bias.require_shape(words.bias, {2, columns});
    else
      its_bias.require_shape(words.bias, {columns});
  }
  void require_state(const DeviceArray& a) const {
    a.require_shape("[batch size, units]", {shape.batch, shape.units});
  }
  void require_gates(const DeviceArray& a) const {
    a.require_shape(
        gate_words(options).gates,
        {shape.steps, shape.batch, slot_count(options) * shape.units});
  }
  void require_sequence(const DeviceArray& a, const char* words,
                        Index width) const {
    if (time_major)
      a.require_shape(words, {shape.steps, shape.batch, width});
    else
      a.require_shape(words, {shape.batch, shape.steps, width});
  }
  void require_states(const DeviceArray& a) const {
    require_sequence(a, time_major ? "[steps, batch size, units]"
                                   : "[batch size, steps, units]",
                     shape.units);
  }

  template <class T>
  Sequence<T> view(const DeviceArray& a) const {
    return a.sequence<T>(time_major ? 0 : 1, time_major ? 1 : 0);
  }
  // A Sequence or Mask whose steps are processed as those of x are.
  template <class Steps>
  Steps in_x_order(Steps s) const {
    return go_backwards ? reversed(s, shape.steps) : s;
  }
  // What is kept for the gradient is time-major.
  template <class T>
  Sequence<T> kept_view(const DeviceArray& a) const {
    return a.sequence<T>(0, 1);
  }
  // What RnnForward and RnnBackward have in common.
  template <class T, class Call>
  void set_common(Call& call) const {
    call.shape = shape;
    call.options = options;
    call.weights = weight_views<T>(options, shape.units, kernel.rows<const T>(),
                                   recurrent_kernel.rows<const T>(),
                                   bias.rows<const T>());
    call.h0 = h0.rows<const T>();
    call.c0 = c0.rows<const T>();
    call.mask = mask_view();
    set_dropout<T>(dropout, call);
  }
  Mask mask_view() const {
    if (!mask) return {};
    return in_x_order(Mask{mask.data<const std::uint8_t>(), mask.stride(1),
                           mask.stride(0)});
  }

  // Runs the calls one after another, or, without a workspace, says how many
  // bytes it must have.
  template <class... Calls>
  std::size_t run(const Calls&... calls) const {
    const cuda::Library& cuda = library();
    std::size_t bytes = 0;
    for (const std::size_t one : {cuda::call_bytes(cuda, calls)...})
      bytes = std::max(bytes, one);
    if (!workspace) return bytes;
    if (static_cast<std::size_t>(workspace.size(0)) < bytes)
      throw py::value_error("workspace must have " + std::to_string(bytes) +
                            " bytes, got " +
                            std::to_string(workspace.size(0)));
    require(cuda.available());
    void* const stream =
        reinterpret_cast<void*>(given["stream"].cast<std::uintptr_t>());
    void* const memory = workspace.data<void>();
    const bool tf32 = flag("tf32");
    cuda::Error error;
    without_gil([&] {
      const auto one = [&](const auto& call) {
        if (!error) error = cuda::run_call(cuda, call, stream, tf32, memory);
      };
      (one(calls), ...);
    });
    require(error);
    return bytes;
  }
};

std::size_t cuda_rnn(Cell cell, const py::dict& given) {
  const Arguments a(cell, given);
  const DeviceArray state = a.array("state");
  const DeviceArray cell_state = a.array("cell_state");
  a.require_state(state);
  a.require_state(cell_state);
  std::size_t bytes = 0;
  with_type(a.dtype, [&](auto zero) {
    using T = decltype(zero);
    RnnForward<T> call;
    a.set_common<T>(call);
    call.x = a.in_x_order(a.view<const T>(a.x));
    call.outputs = a.view<T>(a.outputs);
    call.state = state.rows<T>();
    call.cell_state = cell_state.rows<T>();
    for (int gate = 0; gate < kept_gates(a.options); ++gate)
      call.reserve[gate] = slot(a.kept_view<T>(a.reserve), a.shape.units,
                                reserve_slot(a.options, gate));
    call.reserve[kCellState] = a.kept_view<T>(a.cell_states);
    bytes = a.run(call);
  });
  return bytes;
}

std::size_t cuda_rnn_grad(Cell cell, const py::dict& given) {
  const Arguments a(cell, given);
  const DeviceArray d_outputs = a.array("d_outputs");
  const DeviceArray d_state = a.array("d_state");
  const DeviceArray d_cell_state = a.array("d_cell_state");
  const DeviceArray d_gates = a.array("d_gates");
  const DeviceArray d_x = a.array("d_x");
  const DeviceArray d_h0 = a.array("d_h0");
  const DeviceArray d_c0 = a.array("d_c0");
  const DeviceArray d_kernel = a.array("d_kernel");
  const DeviceArray d_recurrent = a.array("d_recurrent_kernel");
  const DeviceArray d_bias = a.array("d_bias");
  a.outputs.require_rank(3, "that of the forward pass");
  if (kept_gates(a.options) > 0)
    a.reserve.require_rank(3, "that of the forward pass");
  if (has_cell_state(a.options))
    a.cell_states.require_rank(3, "that of the forward pass");
  d_gates.require_rank(3, gate_words(a.options).gates);
  a.require_gates(d_gates);
  a.require_states(d_outputs);
  a.require_state(d_state);
  a.require_sequence(d_x, a.x_words(), a.shape.inputs);
  a.require_state(d_cell_state);
  a.require_state(d_h0);
  a.require_state(d_c0);
  a.require_weights(d_kernel, d_recurrent, d_bias);
  std::size_t bytes = 0;
  with_type(a.dtype, [&](auto zero) {
    using T = decltype(zero);
    GradientCalls<T> calls;
    RnnBackward<T>& call = calls.back;
    a.set_common<T>(call);
    call.outputs = a.view<const T>(a.outputs);
    call.reserve[kCellState] = a.kept_view<const T>(a.cell_states);
    calls.set_gates(a.kept_view<const T>(a.reserve), a.kept_view<T>(d_gates));
    call.d_outputs = a.view<const T>(d_outputs);
    call.d_state = d_state.rows<const T>();
    call.d_cell_state = d_cell_state.rows<const T>();
    call.d_h0 = d_h0.rows<T>();
    call.d_c0 = d_c0.rows<T>();
    calls.share();
    calls.to_x.d_x = a.in_x_order(a.view<T>(d_x));
    calls.to_weights.x = a.in_x_order(a.view<const T>(a.x));
    calls.set_weight_gradients(d_kernel.rows<T>(), d_recurrent.rows<T>(),
                               d_bias.rows<T>());
    bytes = d_x ? a.run(call, calls.to_x, calls.to_weights)
                : a.run(call, calls.to_weights);
  });
  return bytes;
}

// What the kernels were built for and what the machine has, or why not.
std::string cuda_describe() {
  std::string error;
  const cuda::Library* const cuda = cuda::open_library(&error);
  if (!cuda) return error;
  char text[500] = "";
  cuda->describe(text, sizeof(text));
  return text;
}

// Empty where kernels can run.
std::string cuda_error() {
  std::string error;
  const cuda::Library* const cuda = cuda::open_library(&error);
  if (!cuda) return error;
  const cuda::Error why = cuda->available();
  return why ? std::string(why.where) + ": " + why.what : "";
}

}  // namespace

void bind_rnn_cuda(py::module_& m) {
  const auto def = [&m](const char* name, Cell cell, auto* function) {
    m.def(name, [cell, function](const py::dict& given) {
      return function(cell, given);
    });
  };
  def("cuda_gru", Cell::kGru, &cuda_rnn);
  def("cuda_gru_grad", Cell::kGru, &cuda_rnn_grad);
  def("cuda_lstm", Cell::kLstm, &cuda_rnn);
  def("cuda_lstm_grad", Cell::kLstm, &cuda_rnn_grad);
  def("cuda_simple_rnn", Cell::kSimpleRnn, &cuda_rnn);
  def("cuda_simple_rnn_grad", Cell::kSimpleRnn, &cuda_rnn_grad);
  m.def("cuda_describe", &cuda_describe);
  m.def("cuda_error", &cuda_error);
}

}  // namespace python
}  // namespace fused_rnn
