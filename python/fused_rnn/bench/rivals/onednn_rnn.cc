// oneDNN's GRU (lbr_gru is reset after, vanilla_gru reset before), LSTM and
// simple RNN. With the argument "packed" the weights are in the formats that
// the primitives prefer, reordered before the clock runs; with "plain" they lie
// as a framework would have them, and oneDNN does with that what it does.
#include <cstring>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "protocol.h"

namespace {

using dnnl::memory;
using dnnl::prop_kind;
using tag = memory::format_tag;

using Values = std::vector<float>;
using Arguments = std::unordered_map<int, memory>;

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::stream& stream() {
  static dnnl::stream only(engine());
  return only;
}

memory::desc describe(const memory::dims& dims, tag format) {
  return memory::desc(dims, memory::data_type::f32, format);
}

void fill(const memory& to, const Values& values) {
  float* data = to.map_data<float>();
  std::copy(values.begin(), values.end(), data);
  to.unmap_data(data);
}

void zero(const memory& to) {
  float* data = to.map_data<float>();
  std::memset(data, 0, to.get_desc().get_size());
  to.unmap_data(data);
}

// A memory of the wanted description with values given in a plain format.
memory make(const memory::desc& wanted, tag format, const Values& values) {
  memory plain(describe(wanted.get_dims(), format), engine());
  fill(plain, values);
  if (wanted == plain.get_desc()) return plain;
  memory other(wanted, engine());
  dnnl::reorder(plain, other).execute(stream(), plain, other);
  stream().wait();
  return other;
}

Values values(memory from, tag format) {
  memory plain(describe(from.get_desc().get_dims(), format), engine());
  dnnl::reorder(from, plain).execute(stream(), from, plain);
  stream().wait();
  float* data = plain.map_data<float>();
  Values result(data, data + plain.get_desc().get_size() / sizeof(float));
  plain.unmap_data(data);
  return result;
}

// lbr_gru has one bias of z and one of r, and both of the candidate.
Values bias(const protocol::Case& c) {
  const std::size_t h = c.units;
  if (!c.reset_after()) return c.read("bias_" + c.convention, c.columns());
  const Values both = c.read("bias_after", 6 * h);
  Values four(4 * h);
  for (std::size_t j = 0; j < 2 * h; ++j) four[j] = both[j] + both[3 * h + j];
  std::copy_n(&both[2 * h], h, &four[2 * h]);
  std::copy_n(&both[5 * h], h, &four[3 * h]);
  return four;
}

Values d_bias(const protocol::Case& c, const Values& four) {
  const std::size_t h = c.units;
  if (!c.reset_after()) return four;
  Values both(6 * h);
  std::copy_n(&four[0], 3 * h, &both[0]);
  std::copy_n(&four[0], 2 * h, &both[3 * h]);
  std::copy_n(&four[3 * h], h, &both[5 * h]);
  return both;
}

// What the descriptions of a cell's primitives are made of.
struct Descriptions {
  memory::desc x, y, state, bias;
  memory::dims kernel, recurrent;
  bool packed;

  explicit Descriptions(const protocol::Case& c, bool packed_weights)
      : packed(packed_weights) {
    const memory::dim t = c.steps, b = c.batch, i = c.inputs, h = c.units;
    const memory::dim gates = c.columns() / c.units;
    x = describe({t, b, i}, tag::tnc);
    y = describe({t, b, h}, tag::tnc);
    state = describe({1, 1, b, h}, tag::ldnc);
    bias = describe({1, 1, c.reset_after() ? 4 : gates, h}, tag::ldgo);
    kernel = {1, 1, i, gates, h};
    recurrent = {1, 1, h, gates, h};
  }

  // Of weights as a framework has them, if not as the primitives like them.
  memory::desc weights(const memory::dims& dims, tag plain) const {
    return describe(dims, packed ? tag::any : plain);
  }
};

constexpr auto kDirection = dnnl::rnn_direction::unidirectional_left2right;

template <class Forward>
typename Forward::primitive_desc describe_forward(const Descriptions& d,
                                                  bool training) {
  const auto kind =
      training ? prop_kind::forward_training : prop_kind::forward_inference;
  const auto kernel = d.weights(d.kernel, tag::ldigo);
  const auto recurrent = d.weights(d.recurrent, tag::ldigo);
  if constexpr (std::is_same_v<Forward, dnnl::lstm_forward>) {
    return {engine(), kind,      kDirection, d.x, d.state, d.state,
            kernel,   recurrent, d.bias,     d.y, d.state, d.state};
  } else if constexpr (std::is_same_v<Forward, dnnl::vanilla_rnn_forward>) {
    return {engine(),   kind,      dnnl::algorithm::eltwise_tanh,
            kDirection, d.x,       d.state,
            kernel,     recurrent, d.bias,
            d.y,        d.state};
  } else {
    return {engine(), kind,      kDirection, d.x, d.state,
            kernel,   recurrent, d.bias,     d.y, d.state};
  }
}

template <class Backward, class Hint>
typename Backward::primitive_desc describe_backward(const Descriptions& d,
                                                    const Hint& hint) {
  const auto kind = prop_kind::backward;
  const auto kernel = d.weights(d.kernel, tag::ldgoi);
  const auto recurrent = d.weights(d.recurrent, tag::ldgoi);
  const auto d_kernel = describe(d.kernel, tag::any);
  const auto d_recurrent = describe(d.recurrent, tag::any);
  if constexpr (std::is_same_v<Backward, dnnl::lstm_backward>) {
    return {engine(), kind,      kDirection, d.x,      d.state,     d.state,
            kernel,   recurrent, d.bias,     d.y,      d.state,     d.state,
            d.x,      d.state,   d.state,    d_kernel, d_recurrent, d.bias,
            d.y,      d.state,   d.state,    hint};
  } else if constexpr (std::is_same_v<Backward, dnnl::vanilla_rnn_backward>) {
    return {engine(),   kind,      dnnl::algorithm::eltwise_tanh,
            kDirection, d.x,       d.state,
            kernel,     recurrent, d.bias,
            d.y,        d.state,   d.x,
            d.state,    d_kernel,  d_recurrent,
            d.bias,     d.y,       d.state,
            hint};
  } else {
    return {engine(),  kind,        kDirection, d.x,     d.state, kernel,
            recurrent, d.bias,      d.y,        d.state, d.x,     d.state,
            d_kernel,  d_recurrent, d.bias,     d.y,     d.state, hint};
  }
}

template <class Forward, class Backward>
protocol::Call prepare(const protocol::Case& c, bool packed) {
  const std::size_t t = c.steps, b = c.batch, i = c.inputs, h = c.units;
  const bool two_states = c.cell == "lstm";
  const Descriptions d(c, packed);
  const Values kernel = c.read("kernel", i * c.columns());
  const Values recurrent = c.read("recurrent_kernel", h * c.columns());
  const auto forward_desc = describe_forward<Forward>(d, c.training());
  Arguments forward_arguments = {
      {DNNL_ARG_SRC_LAYER,
       make(d.x, tag::tnc, protocol::swap_axes(c.read("x", b * t * i), b, t))},
      {DNNL_ARG_SRC_ITER, make(d.state, tag::ldnc, c.read("h0", b * h))},
      {DNNL_ARG_WEIGHTS_LAYER,
       make(forward_desc.weights_layer_desc(), tag::ldigo, kernel)},
      {DNNL_ARG_WEIGHTS_ITER,
       make(forward_desc.weights_iter_desc(), tag::ldigo, recurrent)},
      {DNNL_ARG_BIAS, make(d.bias, tag::ldgo, bias(c))},
      {DNNL_ARG_DST_LAYER, memory(d.y, engine())},
      {DNNL_ARG_DST_ITER, memory(d.state, engine())}};
  if (two_states) {
    forward_arguments[DNNL_ARG_SRC_ITER_C] =
        make(d.state, tag::ldnc, c.read("c0", b * h));
    forward_arguments[DNNL_ARG_DST_ITER_C] = memory(d.state, engine());
  }
  const auto forward = std::make_shared<Forward>(forward_desc);
  const auto write_outputs = [&](const Arguments& arguments) {
    c.write("outputs",
            protocol::swap_axes(
                values(arguments.at(DNNL_ARG_DST_LAYER), tag::tnc), t, b));
    c.write("state", values(arguments.at(DNNL_ARG_DST_ITER), tag::ldnc));
    if (two_states) {
      c.write("cell_state",
              values(arguments.at(DNNL_ARG_DST_ITER_C), tag::ldnc));
    }
  };
  if (!c.training()) {
    const auto call = [forward, forward_arguments] {
      forward->execute(stream(), forward_arguments);
      stream().wait();
    };
    call();
    write_outputs(forward_arguments);
    return call;
  }

  forward_arguments[DNNL_ARG_WORKSPACE] =
      memory(forward_desc.workspace_desc(), engine());
  const auto backward_desc = describe_backward<Backward>(d, forward_desc);
  Arguments backward_arguments = forward_arguments;
  backward_arguments[DNNL_ARG_WEIGHTS_LAYER] =
      make(backward_desc.weights_layer_desc(), tag::ldigo, kernel);
  backward_arguments[DNNL_ARG_WEIGHTS_ITER] =
      make(backward_desc.weights_iter_desc(), tag::ldigo, recurrent);
  backward_arguments[DNNL_ARG_DIFF_DST_LAYER] = make(
      d.y, tag::tnc, protocol::swap_axes(c.read("d_outputs", b * t * h), b, t));
  backward_arguments[DNNL_ARG_DIFF_SRC_LAYER] = memory(d.x, engine());
  std::vector<std::pair<int, int>> states = {
      {DNNL_ARG_DIFF_DST_ITER, DNNL_ARG_DIFF_SRC_ITER}};
  if (two_states) {
    states.emplace_back(DNNL_ARG_DIFF_DST_ITER_C, DNNL_ARG_DIFF_SRC_ITER_C);
  }
  for (const auto& [last, first] : states) {
    backward_arguments[last] = memory(d.state, engine());
    zero(backward_arguments[last]);
    backward_arguments[first] = memory(d.state, engine());
  }
  // Sums are added to what these hold.
  const memory sums[] = {
      memory(backward_desc.diff_weights_layer_desc(), engine()),
      memory(backward_desc.diff_weights_iter_desc(), engine()),
      memory(backward_desc.diff_bias_desc(), engine())};
  backward_arguments[DNNL_ARG_DIFF_WEIGHTS_LAYER] = sums[0];
  backward_arguments[DNNL_ARG_DIFF_WEIGHTS_ITER] = sums[1];
  backward_arguments[DNNL_ARG_DIFF_BIAS] = sums[2];
  const auto backward = std::make_shared<Backward>(backward_desc);
  const auto call = [forward, forward_arguments, backward, backward_arguments,
                     kernel_sum = sums[0], recurrent_sum = sums[1],
                     bias_sum = sums[2]] {
    forward->execute(stream(), forward_arguments);
    zero(kernel_sum);
    zero(recurrent_sum);
    zero(bias_sum);
    backward->execute(stream(), backward_arguments);
    stream().wait();
  };
  call();
  write_outputs(forward_arguments);
  c.write(
      "d_x",
      protocol::swap_axes(
          values(backward_arguments[DNNL_ARG_DIFF_SRC_LAYER], tag::tnc), t, b));
  const char* names[] = {"d_h0", "d_c0"};
  for (std::size_t s = 0; s < states.size(); ++s) {
    c.write(names[s], values(backward_arguments[states[s].second], tag::ldnc));
  }
  c.write("d_kernel", values(sums[0], tag::ldigo));
  c.write("d_recurrent_kernel", values(sums[1], tag::ldigo));
  c.write("d_bias", d_bias(c, values(sums[2], tag::ldgo)));
  return call;
}

protocol::Call prepare(const protocol::Case& c, bool packed) {
  if (c.cell == "lstm") {
    return prepare<dnnl::lstm_forward, dnnl::lstm_backward>(c, packed);
  }
  if (c.cell == "rnn") {
    return prepare<dnnl::vanilla_rnn_forward, dnnl::vanilla_rnn_backward>(
        c, packed);
  }
  if (c.reset_after()) {
    return prepare<dnnl::lbr_gru_forward, dnnl::lbr_gru_backward>(c, packed);
  }
  return prepare<dnnl::gru_forward, dnnl::gru_backward>(c, packed);
}

// The best of the instruction sets that it may use.
std::string instruction_set() {
  const auto bits = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  std::string best = "baseline";
  const std::pair<dnnl::cpu_isa, const char*> known[] = {
      {dnnl::cpu_isa::sse41, "SSE4.1"},
      {dnnl::cpu_isa::avx2, "AVX2"},
      {dnnl::cpu_isa::avx512_core, "AVX-512"},
      {dnnl::cpu_isa::avx512_core_bf16, "AVX-512 with bf16"},
      {dnnl::cpu_isa::avx512_core_fp16, "AVX-512 with fp16"},
      {dnnl::cpu_isa::avx512_core_amx, "AVX-512 with AMX"}};
  for (const auto& [isa, name] : known) {
    const auto needed = static_cast<unsigned>(isa);
    if ((bits & needed) == needed) best = name;
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const bool packed = argc < 2 || std::string(argv[1]) != "plain";
  const dnnl_version_t* version = dnnl_version();
  const std::string versions =
      "{\"oneDNN\": \"" + std::to_string(version->major) + "." +
      std::to_string(version->minor) + "." + std::to_string(version->patch) +
      "\", \"oneDNN instruction set\": \"" + instruction_set() + "\"}";
  return protocol::serve(versions, [packed](const protocol::Case& c) {
    return prepare(c, packed);
  });
}
