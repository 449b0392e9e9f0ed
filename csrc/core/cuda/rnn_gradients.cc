// The gradients of inputs and weights on a GPU: large products over all rows,
// cut into chunks of steps that bound the scratch.
#include "core/cuda/call.h"

namespace fused_rnn {
namespace cuda {
namespace {

// Gate gradients of steps [t, t + count) as matrices, in place or gathered to
// `to` [rows, gates * H].
template <class T>
class GateGradients {
 public:
  void take(Workspace& workspace, const Sequence<const T>* d_gates, int gates,
            const RnnShape& shape, Index chunk) {
    shape_ = shape;
    gates_ = gates;
    d_gates_ = d_gates;
    for (int g = 0; g < gates; ++g)
      in_place_ = in_place_ && (!d_gates[g] || matrix(g, 0, shape.steps));
    if (!in_place_)
      to_ = workspace.take<T>(chunk * shape.batch * gates * shape.units);
  }
  Error read(Index t, Index count, Rows<const T>* rows, void* stream) const {
    for (int g = 0; g < gates_; ++g) {
      if (!d_gates_[g]) continue;
      if (in_place_) {
        rows[g] = matrix(g, t, count);
        continue;
      }
      Gather<T, T> gather;
      gather.step = t;
      gather.steps = static_cast<int>(count);
      gather.batch = static_cast<int>(shape_.batch);
      gather.width = static_cast<int>(shape_.units);
      gather.from = d_gates_[g];
      gather.to = {to_ + g * shape_.units, gates_ * shape_.units};
      FUSED_RNN_TRY(launch_gather(gather, stream));
      rows[g] = read_only(gather.to);
    }
    return {};
  }

 private:
  Rows<const T> matrix(int g, Index t, Index count) const {
    return as_matrix(d_gates_[g], t, count, shape_.batch, shape_.units);
  }

  RnnShape shape_;
  int gates_ = 0;
  const Sequence<const T>* d_gates_ = nullptr;
  bool in_place_ = true;
  T* to_ = nullptr;
};

template <class T>
class InputGradient {
 public:
  using C = Compute<T>;

  explicit InputGradient(const RnnInputGradient<T>& args)
      : args_(args), chunk_(chunk_steps(args.shape)) {}

  void layout(Workspace& workspace) {
    const RnnShape& shape = args_.shape;
    d_gates_.take(workspace, args_.d_gates, gates(), shape, chunk_);
    in_place_ = kComputesAsStored<T> && !args_.mask.data &&
                as_matrix(args_.d_x, 0, shape.steps, shape.batch, shape.inputs);
    if (!in_place_)
      sum_ = workspace.take<C>(chunk_ * shape.batch * shape.inputs);
  }

  Error run(const Device& device) const {
    const RnnShape& shape = args_.shape;
    if (shape.batch == 0 || shape.inputs == 0) return {};
    for (Index t = 0; t < shape.steps; t += chunk_) {
      const Index count = std::min(chunk_, shape.steps - t);
      Rows<C> sum{sum_, shape.inputs};
      if constexpr (kComputesAsStored<T>)
        if (in_place_)
          sum = as_matrix(args_.d_x, t, count, shape.batch, shape.inputs);
      if (shape.units > 0) FUSED_RNN_TRY(add_gates(device, t, count, sum));
      if (in_place_ && shape.units > 0) continue;
      Scatter<T> s;
      s.step = t;
      s.steps = static_cast<int>(count);
      s.batch = static_cast<int>(shape.batch);
      s.width = static_cast<int>(shape.inputs);
      if (shape.units > 0) s.from = read_only(sum);
      s.mask = args_.mask;
      s.to = args_.d_x;
      FUSED_RNN_TRY(launch_scatter(s, device.stream));
    }
    return {};
  }

 private:
  int gates() const { return gate_count(args_.options); }
  Error add_gates(const Device& device, Index t, Index count,
                  Rows<C> sum) const {
    const RnnShape& shape = args_.shape;
    Rows<const T> d_gates[kMaxGates];
    FUSED_RNN_TRY(d_gates_.read(t, count, d_gates, device.stream));
    GateRuns<T> kernel;
    kernel.find(args_.weights.kernel, 0, gates(), shape.units, false, d_gates);
    for (int i = 0; i < kernel.size; ++i) {
      const auto& run = kernel.runs[i];
      FUSED_RNN_TRY(multiply(device, false, true, i > 0, count * shape.batch,
                             shape.inputs, run.gates * shape.units,
                             d_gates[run.first], run.matrix, sum));
    }
    return {};
  }

  const RnnInputGradient<T>& args_;
  const Index chunk_;
  bool in_place_ = false;
  GateGradients<T> d_gates_;
  C* sum_ = nullptr;  // [chunk * B, I]
};

template <class T>
class WeightGradient {
 public:
  using C = Compute<T>;

  explicit WeightGradient(const RnnWeightGradient<T>& args)
      : args_(args), chunk_(chunk_steps(args.shape)) {}

  void layout(Workspace&);
  Error run(const Device&);

 private:
  // A result, and where it is summed: there if it is stored as it is computed.
  struct Sum {
    Rows<T> result;
    Index rows = 0;
    Rows<C> sum;
  };
  static bool wanted(const Sum& sum) { return static_cast<bool>(sum.result); }

  Index units() const { return args_.shape.units; }
  Index inputs() const { return args_.shape.inputs; }
  int gates() const { return gate_count(args_.options); }
  int gradients() const { return gate_gradient_count(args_.options); }
  // Whether the forward product of a gate read r∘h.
  bool reset(int gate) const {
    return gate == kCandidate && two_stages(args_.options);
  }
  // Whether it read what that of another did.
  bool same_left(int a, int b) const {
    const auto& masks = args_.recurrent_dropout;
    return reset(a) == reset(b) && masks[a].data == masks[b].data &&
           masks[a].row == masks[b].row;
  }
  // Whether that was the state, unchanged.
  bool plain(int gate) const {
    return !args_.recurrent_dropout[gate] && !reset(gate);
  }
  // The end of the gates from this one on that read the same.
  int left_end(int gate) const {
    int end = gate + 1;
    while (end < gates() && same_left(gate, end)) ++end;
    return end;
  }

  void take(Workspace&, Sum (&sums)[kMaxGates], const Rows<T>* results,
            Index rows);
  template <class E>
  Gather<T, E> rows_of(Index t, Index count, Index width, E* to) const;
  template <class E>
  Error add(const Device&, const Sum* sums, int end, Rows<const E> left,
            const Rows<const E>* right, Index count, bool first) const;
  Error widen(const Rows<const T>* gates, int count, Index rows, void* stream,
              Rows<const C>* to) const;
  Error add_recurrent(const Device&, Index t, Index count,
                      const Rows<const T>* right, bool first) const;
  Error add_chunk(const Device&, Index t, Index count) const;
  Error write(const Sum (&sums)[kMaxGates], bool zeros, void* stream) const;

  const RnnWeightGradient<T>& args_;
  const Index chunk_;
  bool x_in_place_ = false;
  GateGradients<T> d_gates_;
  Sum kernel_[kMaxGates], recurrent_[kMaxGates];
  Sum bias_[kMaxGates], recurrent_bias_[kMaxGates];
  T* left_ = nullptr;   // [chunk * B, I or H]
  C* scaled_ = nullptr;  // [chunk * B, H]: r∘h, h∘m
  C* right_ = nullptr;   // [chunk * B, gates * H]: their gradients, beside it
  T* ones_ = nullptr;    // [1, chunk * B]
  int* previous_ = nullptr;  // [T, B]
};

template <class T>
void WeightGradient<T>::take(Workspace& workspace, Sum (&sums)[kMaxGates],
                             const Rows<T>* results, Index rows) {
  C* scratch = nullptr;
  if (!kComputesAsStored<T>)
    scratch = workspace.take<C>(rows * gates() * units());
  for (int g = 0; g < gates(); ++g) {
    sums[g].result = results[g];
    sums[g].rows = rows;
    if constexpr (kComputesAsStored<T>)
      sums[g].sum = results[g];
    else
      sums[g].sum = {scratch + g * units(), gates() * units()};
  }
}

template <class T>
void WeightGradient<T>::layout(Workspace& workspace) {
  const RnnShape& shape = args_.shape;
  Rows<T> bias[kMaxGates], recurrent_bias[kMaxGates];
  for (int g = 0; g < kMaxGates; ++g) {
    bias[g] = {args_.d_bias[g], units()};
    recurrent_bias[g] = {args_.d_recurrent_bias[g], units()};
  }
  take(workspace, kernel_, args_.d_kernel, inputs());
  take(workspace, recurrent_, args_.d_recurrent, units());
  take(workspace, bias_, bias, 1);
  take(workspace, recurrent_bias_, recurrent_bias, 1);
  d_gates_.take(workspace, args_.d_gates, gradients(), shape, chunk_);
  const Index rows = chunk_ * shape.batch;
  x_in_place_ = !args_.mask.data &&
                as_matrix(args_.x, 0, shape.steps, shape.batch, inputs());
  left_ = workspace.take<T>(rows * std::max(x_in_place_ ? 0 : inputs(),
                                            units()));
  int most = 0;  // gates at once that did not read the plain state
  for (int g = 0; g < gates(); g = left_end(g))
    if (!plain(g)) most = std::max(most, left_end(g) - g);
  if (most > 0) scaled_ = workspace.take<C>(rows * units());
  if (!kComputesAsStored<T>) right_ = workspace.take<C>(rows * most * units());
  ones_ = workspace.take<T>(rows);
  if (args_.mask.data)
    previous_ = workspace.take<int>(shape.steps * shape.batch);
}

template <class T>
template <class E>
Gather<T, E> WeightGradient<T>::rows_of(Index t, Index count, Index width,
                                        E* to) const {
  Gather<T, E> g;
  g.step = t;
  g.steps = static_cast<int>(count);
  g.batch = static_cast<int>(args_.shape.batch);
  g.width = static_cast<int>(width);
  g.mask = args_.mask;
  g.to = {to, width};
  return g;
}

// sum (+)= leftᵀ·right for the gates below `end` that are wanted, at once where
// they lie side by side.
template <class T>
template <class E>
Error WeightGradient<T>::add(const Device& device, const Sum* sums, int end,
                             Rows<const E> left, const Rows<const E>* right,
                             Index count, bool first) const {
  for (int g = 0, next; g < end; g = next) {
    next = g + 1;
    if (!sums[g].result || !right[g]) continue;
    const auto follows = [&](const auto& a, const auto& b) {
      return b.data == a.data + units() && a.row == b.row;
    };
    while (next < end && sums[next].result && right[next] &&
           follows(sums[next - 1].sum, sums[next].sum) &&
           follows(right[next - 1], right[next]))
      ++next;
    FUSED_RNN_TRY(multiply(device, true, false, !first, sums[g].rows,
                           (next - g) * units(), count, left, right[g],
                           sums[g].sum));
  }
  return {};
}

template <class T>
Error WeightGradient<T>::add_recurrent(const Device& device, Index t,
                                       Index count, const Rows<const T>* right,
                                       bool first) const {
  const Index rows = count * args_.shape.batch;
  const auto shifted = [&](auto* to) {
    auto g = rows_of(t, count, units(), to);
    g.from = args_.outputs;
    g.shifted = true;
    g.previous = previous_;
    g.first = args_.h0;
    return g;
  };
  for (int g = 0, end; g < gates(); g = end) {
    end = left_end(g);
    if (std::none_of(recurrent_ + g, recurrent_ + end, wanted)) continue;
    if (plain(g)) {
      const auto h_prev = shifted(left_);
      FUSED_RNN_TRY(launch_gather(h_prev, device.stream));
      FUSED_RNN_TRY(add(device, recurrent_ + g, end - g, read_only(h_prev.to),
                        right + g, rows, first));
      continue;
    }
    auto left = shifted(scaled_);
    if (reset(g)) left.scale = args_.reset;
    left.row_scale = args_.recurrent_dropout[g];
    FUSED_RNN_TRY(launch_gather(left, device.stream));
    Rows<const C> beside[kMaxGates];
    FUSED_RNN_TRY(widen(right + g, end - g, rows, device.stream, beside));
    FUSED_RNN_TRY(add(device, recurrent_ + g, end - g, read_only(left.to),
                      beside, rows, first));
  }
  return {};
}

// Gate gradients in the type that is computed in.
template <class T>
Error WeightGradient<T>::widen(const Rows<const T>* gates, int count,
                               Index rows, void* stream,
                               Rows<const C>* to) const {
  if constexpr (kComputesAsStored<T>) {
    std::copy_n(gates, count, to);
  } else {
    for (int g = 0; g < count; ++g) {
      const Rows<C> wide{right_ + g * units(), count * units()};
      FUSED_RNN_TRY(copy_rows(gates[g], rows, units(), wide, stream));
      to[g] = read_only(wide);
    }
  }
  return {};
}

template <class T>
Error WeightGradient<T>::add_chunk(const Device& device, Index t,
                                   Index count) const {
  const bool first = t == 0;
  const Index rows = count * args_.shape.batch;
  Rows<const T> d_gates[kMaxGates];
  FUSED_RNN_TRY(d_gates_.read(t, count, d_gates, device.stream));
  const Rows<const T> ones{ones_, 1};
  FUSED_RNN_TRY(add(device, bias_, gates(), ones, d_gates, rows, first));
  if (inputs() > 0 && std::any_of(kernel_, kernel_ + gates(), wanted)) {
    Rows<const T> x{left_, inputs()};
    if (x_in_place_) {
      x = as_matrix(args_.x, t, count, args_.shape.batch, inputs());
    } else {
      auto g = rows_of(t, count, inputs(), left_);
      g.from = args_.x;
      FUSED_RNN_TRY(launch_gather(g, device.stream));
    }
    FUSED_RNN_TRY(add(device, kernel_, gates(), x, d_gates, rows, first));
  }
  Rows<const T> recurrent[kMaxGates];
  for (int g = 0; g < gates(); ++g)
    recurrent[g] = d_gates[recurrent_gate(g, args_.options)];
  FUSED_RNN_TRY(
      add(device, recurrent_bias_, gates(), ones, recurrent, rows, first));
  return add_recurrent(device, t, count, recurrent, first);
}

template <class T>
Error WeightGradient<T>::write(const Sum (&sums)[kMaxGates], bool zeros,
                               void* stream) const {
  for (const Sum& sum : sums)
    if (sum.result && (zeros || !kComputesAsStored<T>))
      FUSED_RNN_TRY(write_rows(zeros ? Rows<const C>{} : read_only(sum.sum),
                               sum.rows, units(), sum.result, stream));
  return {};
}

template <class T>
Error WeightGradient<T>::run(const Device& device) {
  const RnnShape& shape = args_.shape;
  if (units() == 0) return {};
  const bool nothing = shape.steps == 0 || shape.batch == 0;
  if (!nothing) {
    if (previous_) {
      PreviousValid p;
      p.steps = static_cast<int>(shape.steps);
      p.batch = static_cast<int>(shape.batch);
      p.mask = args_.mask;
      p.previous = previous_;
      FUSED_RNN_TRY(launch_previous_valid(p, device.stream));
    }
    auto ones = rows_of(0, 1, 1, ones_);
    ones.batch = static_cast<int>(chunk_ * shape.batch);
    ones.mask = {};
    ones.otherwise = 1;
    FUSED_RNN_TRY(launch_gather(ones, device.stream));
    for (Index t = 0; t < shape.steps; t += chunk_)
      FUSED_RNN_TRY(add_chunk(device, t, std::min(chunk_, shape.steps - t)));
  }
  FUSED_RNN_TRY(write(kernel_, nothing, device.stream));
  FUSED_RNN_TRY(write(recurrent_, nothing, device.stream));
  FUSED_RNN_TRY(write(bias_, nothing, device.stream));
  return write(recurrent_bias_, nothing, device.stream);
}

}  // namespace

FUSED_RNN_DEFINE_CUDA_CALL(rnn_input_gradient, RnnInputGradient, InputGradient)
FUSED_RNN_DEFINE_CUDA_CALL(rnn_weight_gradient, RnnWeightGradient,
                           WeightGradient)

}  // namespace cuda
}  // namespace fused_rnn
