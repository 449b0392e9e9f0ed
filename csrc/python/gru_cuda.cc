// A sequence on a GPU, forward and backward, on memory that the caller brings.
#include "python/gru_cuda.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/cuda/library.h"
#include "core/rnn.h"
#include "python/arrays.h"
#include "python/call.h"
#include "python/device_arrays.h"
#include "python/gru_arguments.h"

namespace fused_rnn {
namespace python {
namespace {

// As in gru_sequence.cc: reset before keeps r in the slot of gh_c.
constexpr int kKeptReset = kRecurrentCandidate;

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
  DeviceArray x, h0, kernel, recurrent_kernel, bias, mask, dropout, outputs,
      reserve, workspace;

  DeviceArray array(const char* name) const {
    return DeviceArray(name, given[name], item);
  }
  bool flag(const char* name) const { return given[name].cast<bool>(); }

  explicit Arguments(const py::dict& arguments)
      : given(arguments),
        dtype(dtype_named(given["dtype"].cast<std::string>())),
        item(item_of(dtype)),
        go_backwards(flag("go_backwards")),
        time_major(flag("time_major")),
        x(array("x")),
        h0(array("h0")),
        kernel(array("kernel")),
        recurrent_kernel(array("recurrent_kernel")),
        bias(array("bias")),
        mask("mask", given["mask"], 1),
        dropout(array("recurrent_dropout_mask")),
        outputs(array("outputs")),
        reserve(array("reserve")),
        workspace("workspace", given["workspace"], 1) {
    options.reset_after = flag("reset_after");
    options.zero_output_for_mask = flag("zero_output_for_mask");
    options.activation = parse_activation("activation", given["activation"]);
    options.recurrent_activation =
        parse_activation("recurrent_activation", given["recurrent_activation"]);
    x.require_rank(3, x_words());
    recurrent_kernel.require_rank(2, "[units, 3 * units]");
    kernel.require_rank(2, "[input size, 3 * units]");
    shape.steps = x.size(time_major ? 0 : 1);
    shape.batch = x.size(time_major ? 1 : 0);
    shape.inputs = x.size(2);
    shape.units = recurrent_kernel.size(0);
    const Index columns = kGruGates * shape.units;
    kernel.require_shape("[input size, 3 * units]", {shape.inputs, columns});
    recurrent_kernel.require_shape("[units, 3 * units]",
                                   {shape.units, columns});
    require_bias(bias);
    require_state(h0);
    require_states(outputs);
    mask.require_shape("[batch size, steps]", {shape.batch, shape.steps});
    dropout.require_shape("[3, batch size, units]",
                          {kGruGates, shape.batch, shape.units});
    require_gates(reserve);
  }

  const char* x_words() const {
    return time_major ? "[steps, batch size, input size]"
                      : "[batch size, steps, input size]";
  }
  void require_bias(const DeviceArray& a) const {
    const Index columns = kGruGates * shape.units;
    if (options.reset_after)
      a.require_shape("[2, 3 * units] with reset_after", {2, columns});
    else
      a.require_shape("[3 * units] without reset_after", {columns});
  }
  void require_state(const DeviceArray& a) const {
    a.require_shape("[batch size, units]", {shape.batch, shape.units});
  }
  void require_gates(const DeviceArray& a) const {
    a.require_shape("[steps, batch size, 4 * units]",
                    {shape.steps, shape.batch, kGruReserve * shape.units});
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
  // A gate's part of [T, B, 4H].
  template <class T>
  Sequence<T> slot(const DeviceArray& a, int index) const {
    Sequence<T> s = a.sequence<T>(0, 1);
    if (s) s.data += index * shape.units;
    return s;
  }
  int reserve_slot(int gate) const {
    return gate == kReset && !options.reset_after ? kKeptReset : gate;
  }
  int gates() const { return options.reset_after ? kGruReserve : kGruGates; }

  template <class T>
  RnnWeights<T> weights() const {
    RnnWeights<T> w;
    for (int g = 0; g < kGruGates; ++g) {
      w.kernel[g] = kernel.rows<const T>();
      w.kernel[g].data += g * shape.units;
      w.recurrent[g] = recurrent_kernel.rows<const T>();
      w.recurrent[g].data += g * shape.units;
      if (!bias) continue;
      w.bias[g] = bias.data<const T>() + g * shape.units;
      if (options.reset_after)
        w.recurrent_bias[g] = w.bias[g] + bias.stride(0);
    }
    return w;
  }
  // What the calls have in common.
  template <class T, class G>
  void set_common(G& g) const {
    g.shape = shape;
    g.options = options;
    g.h0 = h0.rows<const T>();
    g.mask = mask_view();
    for (int gate = 0; dropout && gate < kGruGates; ++gate)
      g.recurrent_dropout[gate] = {
          dropout.data<const T>() + gate * dropout.stride(0),
          dropout.stride(1)};
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

std::size_t cuda_gru(const py::dict& given) {
  const Arguments a(given);
  const DeviceArray state = a.array("state");
  a.require_state(state);
  std::size_t bytes = 0;
  with_type(a.dtype, [&](auto zero) {
    using T = decltype(zero);
    RnnForward<T> call;
    a.set_common<T>(call);
    call.x = a.in_x_order(a.view<const T>(a.x));
    call.weights = a.weights<T>();
    call.outputs = a.view<T>(a.outputs);
    call.state = state.rows<T>();
    for (int g = 0; g < a.gates(); ++g)
      call.reserve[g] = a.slot<T>(a.reserve, a.reserve_slot(g));
    bytes = a.run(call);
  });
  return bytes;
}

std::size_t cuda_gru_grad(const py::dict& given) {
  const Arguments a(given);
  const RnnShape& shape = a.shape;
  const Index columns = kGruGates * shape.units;
  const DeviceArray d_outputs = a.array("d_outputs");
  const DeviceArray d_state = a.array("d_state");
  const DeviceArray d_gates = a.array("d_gates");
  const DeviceArray d_x = a.array("d_x");
  const DeviceArray d_h0 = a.array("d_h0");
  const DeviceArray d_kernel = a.array("d_kernel");
  const DeviceArray d_recurrent = a.array("d_recurrent_kernel");
  const DeviceArray d_bias = a.array("d_bias");
  a.outputs.require_rank(3, "that of the forward pass");
  a.reserve.require_rank(3, "that of the forward pass");
  d_gates.require_rank(3, "[steps, batch size, 4 * units]");
  a.require_gates(d_gates);
  a.require_states(d_outputs);
  a.require_state(d_state);
  a.require_sequence(d_x, a.x_words(), shape.inputs);
  a.require_state(d_h0);
  d_kernel.require_shape("[input size, 3 * units]", {shape.inputs, columns});
  d_recurrent.require_shape("[units, 3 * units]", {shape.units, columns});
  a.require_bias(d_bias);
  std::size_t bytes = 0;
  with_type(a.dtype, [&](auto zero) {
    using T = decltype(zero);
    RnnBackward<T> back;
    a.set_common<T>(back);
    back.weights = a.weights<T>();
    back.outputs = a.view<const T>(a.outputs);
    back.d_outputs = a.view<const T>(d_outputs);
    back.d_state = d_state.rows<const T>();
    back.d_h0 = d_h0.rows<T>();
    RnnInputGradient<T> to_x;
    to_x.shape = shape;
    to_x.weights = back.weights;
    to_x.mask = back.mask;
    to_x.d_x = a.in_x_order(a.view<T>(d_x));
    RnnWeightGradient<T> to_weights;
    a.set_common<T>(to_weights);
    to_weights.x = a.in_x_order(a.view<const T>(a.x));
    to_weights.outputs = back.outputs;
    if (!a.options.reset_after)
      to_weights.reset = a.slot<const T>(a.reserve, kKeptReset);
    for (int g = 0; g < a.gates(); ++g) {
      back.reserve[g] = a.slot<const T>(a.reserve, a.reserve_slot(g));
      back.d_gates[g] = a.slot<T>(d_gates, g);
      to_weights.d_gates[g] = a.slot<const T>(d_gates, g);
    }
    for (int g = 0; g < kGruGates; ++g) {
      const Index column = g * shape.units;
      to_x.d_gates[g] = to_weights.d_gates[g];
      if (d_kernel) {
        to_weights.d_kernel[g] = d_kernel.rows<T>();
        to_weights.d_kernel[g].data += column;
      }
      if (d_recurrent) {
        to_weights.d_recurrent[g] = d_recurrent.rows<T>();
        to_weights.d_recurrent[g].data += column;
      }
      if (!d_bias) continue;
      to_weights.d_bias[g] = d_bias.data<T>() + column;
      if (a.options.reset_after)
        to_weights.d_recurrent_bias[g] =
            to_weights.d_bias[g] + d_bias.stride(0);
    }
    bytes = d_x ? a.run(back, to_x, to_weights) : a.run(back, to_weights);
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

void bind_gru_cuda(py::module_& m) {
  m.def("cuda_gru", &cuda_gru);
  m.def("cuda_gru_grad", &cuda_gru_grad);
  m.def("cuda_describe", &cuda_describe);
  m.def("cuda_error", &cuda_error);
}

}  // namespace python
}  // namespace fused_rnn
