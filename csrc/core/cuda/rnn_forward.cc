// The forward time loop on a GPU: the projection of the inputs, then for each
// step one product and one kernel, or two and two for reset before.
#include "core/cuda/call.h"
#include "core/cuda/persistent.h"

namespace fused_rnn {
namespace cuda {
namespace {

template <class T>
class Forward {
 public:
  using C = Compute<T>;

  explicit Forward(const RnnForward<T>& args)
      : args_(args),
        chunk_(chunk_steps(args.shape)),
        dropout_(args.recurrent_dropout, state_gates()),
        plan_(plan_persistent<T>(args.shape, args.options,
                                 static_cast<bool>(dropout_))) {}

  void layout(Workspace&);
  Error run(const Device&);

 private:
  Index steps() const { return args_.shape.steps; }
  Index batch() const { return args_.shape.batch; }
  Index units() const { return args_.shape.units; }
  Index inputs() const { return args_.shape.inputs; }
  int gates() const { return gate_count(args_.options); }
  int stages() const { return two_stages(args_.options) ? 2 : 1; }
  bool cell_state() const { return has_cell_state(args_.options); }
  // Gates whose products read the state itself.
  int state_gates() const { return stages() == 2 ? kCandidate : gates(); }
  bool in_place(const Rows<const T>& first) const {
    return kComputesAsStored<T> && steps() > 0 && first.row >= units();
  }

  bool wide() const;
  Error start(const Device&) const;
  Error project(const Device&, Index t) const;
  Error products(const Device&, Index t, const GateRuns<C>&,
                 ForwardStep<T>*) const;
  ForwardStep<T> all_steps() const;
  void set_step(Index t, ForwardStep<T>*) const;
  Error step(const Device&, Index t, ForwardStep<T>) const;
  Error run_persistent(const Device&) const;

  // A state before step t, by the first one and scratch; null: zeros.
  Rows<const C> state(Index t, const Rows<const T>& first, C* scratch) const {
    if (t == 0 && !first) return {};
    if constexpr (kComputesAsStored<T>)
      if (t == 0 && in_place(first)) return first;
    return {scratch, units()};
  }
  Rows<const C> h(Index t) const { return state(t, args_.h0, h_); }
  Rows<const C> c(Index t) const { return state(t, args_.c0, c_); }
  Rows<const C> operand(Index t, int gate) const {
    if (gate >= state_gates()) return {reset_h_, units()};
    if (dropout_) return {dropped_[dropout_.of(gate)], units()};
    return h(t);
  }
  Rows<C> slot(C* base, Index row, int slot) const {
    return {base + (row * gates() + slot) * units(), gates() * units()};
  }

  const RnnForward<T>& args_;
  const Index chunk_;  // steps projected at once
  const Dropout<T> dropout_;
  const PersistentPlan plan_;
  bool x_in_place_ = false;
  GateRuns<T> kernel_;
  RecurrentWeights<T> recurrent_;
  GateRuns<C> first_;   // what reads the state
  GateRuns<C> second_;  // what reads r∘h
  T* x_ = nullptr;      // gathered, [chunk * B, I]
  C* gx_ = nullptr;     // [chunk * B, gates * H]
  C* gh_ = nullptr;     // [B, gates * H]
  C* h_ = nullptr;      // [B, H]
  C* next_h_ = nullptr;  // persistent only
  C* c_ = nullptr;
  unsigned* arrived_ = nullptr;
  C* z_ = nullptr;
  C* reset_h_ = nullptr;
  C* dropped_[kMaxGates] = {};  // gates with one mask share theirs
};

template <class T>
void Forward<T>::layout(Workspace& workspace) {
  const Index states = batch() * units();
  if (!plan_) {
    recurrent_.take(workspace, args_.weights, gates(), units());
    first_.find(recurrent_.gates, 0, state_gates(), units(), dropout_.apart());
    second_.find(recurrent_.gates, state_gates(), gates(), units(), false);
  }
  h_ = workspace.take<C>(states);
  if (cell_state()) c_ = workspace.take<C>(states);
  if (plan_) {
    next_h_ = workspace.take<C>(states);
    arrived_ = workspace.take<unsigned>(1);
  } else {
    gh_ = workspace.take<C>(gates() * states);
  }
  if (stages() == 2) {
    z_ = workspace.take<C>(states);
    reset_h_ = workspace.take<C>(states);
  }
  for (int i = 0; i < dropout_.count(); ++i)
    dropped_[i] = workspace.take<C>(states);
  if (inputs() == 0) return;
  kernel_.find(args_.weights.kernel, 0, gates(), units(), false);
  gx_ = workspace.take<C>(chunk_ * gates() * states);
  x_in_place_ = static_cast<bool>(
      as_matrix(args_.x, 0, steps(), batch(), inputs()));
  if (!x_in_place_) x_ = workspace.take<T>(chunk_ * batch() * inputs());
}

template <class T>
bool Forward<T>::wide() const {
  Alignment<T> all(units());
  all.add_each(args_.weights.bias);
  all.add_each(args_.weights.recurrent_bias);
  all.add_each(args_.weights.peephole);
  all.add_each(args_.recurrent_dropout);
  all.add_each(args_.reserve);
  all.add(args_.outputs);
  all.add(args_.state);
  all.add(args_.cell_state);
  for (const Rows<const T>& first : {args_.h0, args_.c0})
    if (in_place(first)) all.add(first);
  return all.wide();
}

// What the first step reads.
template <class T>
Error Forward<T>::start(const Device& device) const {
  if (!plan_)
    FUSED_RNN_TRY(recurrent_.prepare(args_.weights, units(), device.stream));
  const auto read = [&](const Rows<const T>& first, C* scratch) -> Error {
    if (!first || in_place(first)) return {};
    return copy_rows(first, batch(), units(), Rows<C>{scratch, units()},
                     device.stream);
  };
  FUSED_RNN_TRY(read(args_.h0, h_));
  if (cell_state()) FUSED_RNN_TRY(read(args_.c0, c_));
  for (int g = 0; args_.h0 && g < dropout_.count(); ++g) {
    Gather<T, C> scaled;
    scaled.steps = 1;
    scaled.batch = static_cast<int>(batch());
    scaled.width = static_cast<int>(units());
    scaled.from = {args_.h0.data, 0, args_.h0.row};
    scaled.row_scale = args_.recurrent_dropout[g];
    scaled.to = {dropped_[g], units()};
    FUSED_RNN_TRY(launch_gather(scaled, device.stream));
  }
  return {};
}

// x·K of the steps from t on.
template <class T>
Error Forward<T>::project(const Device& device, Index t) const {
  if (inputs() == 0) return {};
  const Index count = std::min(chunk_, steps() - t);
  Rows<const T> x = as_matrix(args_.x, t, count, batch(), inputs());
  if (!x_in_place_) {
    Gather<T, T> g;
    g.step = t;
    g.steps = static_cast<int>(count);
    g.batch = static_cast<int>(batch());
    g.width = static_cast<int>(inputs());
    g.from = args_.x;
    g.to = {x_, inputs()};
    FUSED_RNN_TRY(launch_gather(g, device.stream));
    x = read_only(g.to);
  }
  for (int i = 0; i < kernel_.size; ++i) {
    const auto& run = kernel_.runs[i];
    FUSED_RNN_TRY(multiply(device, false, false, false, count * batch(),
                           run.gates * units(), inputs(), x, run.matrix,
                           slot(gx_, 0, run.slot)));
  }
  return {};
}

template <class T>
Error Forward<T>::products(const Device& device, Index t,
                           const GateRuns<C>& gates, ForwardStep<T>* s) const {
  // No state, no product.
  if (!h(t)) return {};
  for (int i = 0; i < gates.size; ++i) {
    const auto& run = gates.runs[i];
    FUSED_RNN_TRY(multiply(device, false, false, false, batch(),
                           run.gates * units(), units(), operand(t, run.first),
                           run.matrix, slot(gh_, 0, run.slot)));
    for (int g = 0; g < kMaxGates; ++g)
      if (gates.slot[g] >= run.slot && gates.slot[g] < run.slot + run.gates)
        s->gh[g] = read_only(slot(gh_, 0, gates.slot[g]));
  }
  return {};
}

template <class T>
ForwardStep<T> Forward<T>::all_steps() const {
  ForwardStep<T> s;
  s.shape.batch = static_cast<int>(batch());
  s.shape.units = static_cast<int>(units());
  s.shape.wide = wide();
  s.shape.options = args_.options;
  std::copy_n(args_.weights.bias, kMaxGates, s.bias);
  std::copy_n(args_.weights.recurrent_bias, kMaxGates, s.recurrent_bias);
  std::copy_n(args_.weights.peephole, kMaxGates, s.peephole);
  s.h_next = {h_, units()};
  s.c_next = {c_, units()};
  s.z = {z_, units()};
  s.reset_h = {reset_h_, units()};
  std::copy_n(args_.recurrent_dropout, kMaxGates, s.dropout);
  for (int g = 0; g < dropout_.count(); ++g)
    s.dropped[g] = {dropped_[g], units()};
  return s;
}

template <class T>
void Forward<T>::set_step(Index t, ForwardStep<T>* s) const {
  set_mask(args_.mask, t, &s->shape);
  for (int g = 0; gx_ && g < gates(); ++g)
    s->gx[g] = read_only(slot(gx_, t % chunk_ * batch(), kernel_.slot[g]));
  s->h_prev = h(t);
  if (cell_state()) s->c_prev = c(t);
  s->output = at_step(args_.outputs, t);
  if (t > 0) s->previous_output = read_only(at_step(args_.outputs, t - 1));
  for (int i = 0; i < kMaxReserve; ++i)
    s->reserve[i] = at_step(args_.reserve[i], t);
}

template <class T>
Error Forward<T>::step(const Device& device, Index t, ForwardStep<T> s) const {
  set_step(t, &s);
  if (t + 1 == steps()) {
    s.state = args_.state;
    s.cell_state = args_.cell_state;
    for (Rows<C>& dropped : s.dropped) dropped = {};
  }
  for (int stage = 0; stage < stages(); ++stage) {
    FUSED_RNN_TRY(products(device, t, stage == 0 ? first_ : second_, &s));
    FUSED_RNN_TRY(launch_forward(s, stage, device.stream));
  }
  return {};
}

// A launch for each chunk of projected inputs.
template <class T>
Error Forward<T>::run_persistent(const Device& device) const {
  PersistentForward<T> p;
  p.plan = plan_;
  p.arrived = arrived_;
  std::copy_n(args_.weights.recurrent, kMaxGates, p.recurrent);
  p.mask_step = args_.mask.step;
  p.gx_step = batch() * gates() * units();
  p.output_step = args_.outputs.step;
  for (int i = 0; i < kMaxReserve; ++i)
    p.reserve_step[i] = args_.reserve[i].step;
  Rows<C> last{h_, units()};  // where the state is, if it is in scratch
  Rows<C> next{next_h_, units()};
  for (Index t = 0; t < steps(); t += chunk_) {
    FUSED_RNN_TRY(project(device, t));
    p.steps = static_cast<int>(std::min(chunk_, steps() - t));
    p.first = all_steps();
    set_step(t, &p.first);
    if (t > 0) p.first.h_prev = read_only(last);
    if (t + p.steps == steps()) {
      p.state = args_.state;
      p.cell_state = args_.cell_state;
    }
    p.h[0] = next;
    p.h[1] = last;
    if (p.steps % 2 == 1) std::swap(last, next);
    FUSED_RNN_TRY(launch_persistent_forward(p, device.stream));
  }
  return {};
}

template <class T>
Error Forward<T>::run(const Device& device) {
  if (batch() == 0 || units() == 0) return {};
  FUSED_RNN_TRY(start(device));
  if (steps() == 0) {
    if (cell_state() && args_.cell_state)
      FUSED_RNN_TRY(write_rows(c(0), batch(), units(), args_.cell_state,
                               device.stream));
    if (!args_.state) return {};
    return write_rows(h(0), batch(), units(), args_.state, device.stream);
  }
  if (plan_) return run_persistent(device);
  const ForwardStep<T> s = all_steps();
  for (Index t = 0; t < steps(); ++t) {
    if (t % chunk_ == 0) FUSED_RNN_TRY(project(device, t));
    FUSED_RNN_TRY(step(device, t, s));
  }
  return {};
}

}  // namespace

FUSED_RNN_DEFINE_CUDA_CALL(rnn_forward, RnnForward, Forward)

}  // namespace cuda
}  // namespace fused_rnn
