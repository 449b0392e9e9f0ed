// The reverse time loop on a GPU: one kernel and one product a step, or two and
// two for reset before. A product adds what its gates hand to the state before
// to the carry, or with dropout stands beside it until the next kernel.
#include "core/cuda/call.h"
#include "core/cuda/persistent.h"

namespace fused_rnn {
namespace cuda {
namespace {

template <class T>
class Backward {
 public:
  using C = Compute<T>;

  explicit Backward(const RnnBackward<T>& args)
      : args_(args), plan_(plan_persistent<T>(args.shape, dropout())) {}

  void layout(Workspace&);
  Error run(const Device&);

 private:
  Index steps() const { return args_.shape.steps; }
  Index batch() const { return args_.shape.batch; }
  Index units() const { return args_.shape.units; }
  bool after() const { return args_.options.reset_after; }
  bool dropout() const { return static_cast<bool>(args_.recurrent_dropout[0]); }

  bool wide() const;
  Error start(const Device&) const;
  Error products(const Device&, const GateRuns<C>&, Rows<C> to, bool add) const;
  BackwardStep<T> all_steps() const;
  void set_step(Index t, BackwardStep<T>*) const;
  Error step(const Device&, Index t, BackwardStep<T>) const;
  Error run_persistent(const Device&) const;
  void read_products(BackwardStep<T>*) const;

  Rows<C> operand(int slot) const {
    return {operand_ + slot * units(), kGruGates * units()};
  }

  const RnnBackward<T>& args_;
  const PersistentPlan plan_;
  RecurrentWeights<T> recurrent_;
  GateRuns<C> last_;   // what reads the state; in order of time, the later
  GateRuns<C> first_;  // what reads r∘h
  C* carry_ = nullptr;         // [B, H]
  C* output_carry_ = nullptr;  // [B, H]
  C* operand_ = nullptr;       // [B, 3H]; persistent: two of [3, B, H]
  unsigned* arrived_ = nullptr;
  C* d_reset_h_ = nullptr;     // [B, H]
  C* product_[kGruGates] = {};    // [B, H]
  int* previous_ = nullptr;    // [T, B]
};

template <class T>
void Backward<T>::layout(Workspace& workspace) {
  const Index states = batch() * units();
  const int state_gates = after() ? kGruGates : kCandidate;
  carry_ = workspace.take<C>(states);
  if (plan_) {
    operand_ = workspace.take<C>(2 * kGruGates * states);
    arrived_ = workspace.take<unsigned>(1);
  } else {
    recurrent_.take(workspace, args_.weights, units());
    last_.find(recurrent_.gates, kUpdate, state_gates, units(), dropout());
    if (!after())
      first_.find(recurrent_.gates, kCandidate, kGruGates, units(), false);
    operand_ = workspace.take<C>(kGruGates * states);
    if (!after()) d_reset_h_ = workspace.take<C>(states);
  }
  for (int g = 0; dropout() && g < state_gates; ++g)
    product_[g] = workspace.take<C>(states);
  if (!args_.mask.data) return;
  previous_ = workspace.take<int>(steps() * batch());
  if (args_.d_outputs && !args_.options.zero_output_for_mask)
    output_carry_ = workspace.take<C>(states);
}

template <class T>
bool Backward<T>::wide() const {
  Alignment<T> all(units());
  all.add(args_.h0);
  all.add(args_.outputs);
  all.add_each(args_.reserve);
  all.add_each(args_.recurrent_dropout);
  all.add(args_.d_outputs);
  all.add_each(args_.d_reserve);
  all.add_each(args_.d_gates);
  all.add(args_.d_h0);
  return all.wide();
}

template <class T>
Error Backward<T>::start(const Device& device) const {
  if (!plan_)
    FUSED_RNN_TRY(recurrent_.prepare(args_.weights, units(), device.stream));
  FUSED_RNN_TRY(copy_rows(args_.d_state, batch(), units(),
                          Rows<C>{carry_, units()}, device.stream));
  if (output_carry_)
    FUSED_RNN_TRY(copy_rows(Rows<const T>{}, batch(), units(),
                            Rows<C>{output_carry_, units()}, device.stream));
  if (!previous_ || steps() == 0) return {};
  PreviousValid p;
  p.steps = static_cast<int>(steps());
  p.batch = static_cast<int>(batch());
  p.mask = args_.mask;
  p.previous = previous_;
  return launch_previous_valid(p, device.stream);
}

// What gates hand through their recurrent weights.
template <class T>
Error Backward<T>::products(const Device& device, const GateRuns<C>& gates,
                            Rows<C> to, bool add) const {
  for (int i = 0; i < gates.size; ++i) {
    const auto& run = gates.runs[i];
    C* const apart = add ? product_[run.first] : nullptr;
    FUSED_RNN_TRY(multiply(device, false, true, add && !apart, batch(), units(),
                           run.gates * units(), read_only(operand(run.slot)),
                           run.matrix, apart ? Rows<C>{apart, units()} : to));
  }
  return {};
}

template <class T>
void Backward<T>::read_products(BackwardStep<T>* s) const {
  for (int g = 0; g < kGruGates; ++g)
    if (product_[g]) s->product[g] = {product_[g], units()};
}

template <class T>
BackwardStep<T> Backward<T>::all_steps() const {
  BackwardStep<T> s;
  s.shape.batch = static_cast<int>(batch());
  s.shape.units = static_cast<int>(units());
  s.shape.wide = wide();
  s.shape.options = args_.options;
  s.outputs = args_.outputs;
  s.h0 = args_.h0;
  s.carry = {carry_, units()};
  s.carry_in = read_only(s.carry);
  std::copy_n(args_.recurrent_dropout, kGruGates, s.dropout);
  if (output_carry_) s.output_carry = {output_carry_, units()};
  return s;
}

template <class T>
void Backward<T>::set_step(Index t, BackwardStep<T>* s) const {
  set_mask(args_.mask, t, &s->shape);
  s->step = t;
  if (previous_) s->previous = previous_ + t * batch();
  s->d_output = at_step(args_.d_outputs, t);
  for (int i = 0; i < kGruReserve; ++i) {
    s->reserve[i] = at_step(args_.reserve[i], t);
    s->d_gates[i] = at_step(args_.d_gates[i], t);
    if (i < kGruGates) s->d_reserve[i] = at_step(args_.d_reserve[i], t);
  }
}

template <class T>
Error Backward<T>::step(const Device& device, Index t,
                        BackwardStep<T> s) const {
  set_step(t, &s);
  if (t + 1 < steps()) read_products(&s);
  const Rows<C> carry{carry_, units()};
  if (after()) {
    FUSED_RNN_TRY(launch_backward_after(s, device.stream));
  } else {
    const Rows<C> d_reset_h{d_reset_h_, units()};
    FUSED_RNN_TRY(launch_backward_before_candidate(s, device.stream));
    FUSED_RNN_TRY(products(device, first_, d_reset_h, false));
    s.d_reset_h = read_only(d_reset_h);
    FUSED_RNN_TRY(launch_backward_before_reset(s, device.stream));
  }
  return products(device, last_, carry, true);
}

template <class T>
Error Backward<T>::run_persistent(const Device& device) const {
  PersistentBackward<T> p;
  p.plan = plan_;
  p.steps = static_cast<int>(steps());
  p.last = all_steps();
  set_step(steps() - 1, &p.last);
  std::copy_n(args_.weights.recurrent, kGruGates, p.recurrent);
  p.operand[0] = operand_;
  p.operand[1] = operand_ + kGruGates * batch() * units();
  p.d_h0 = args_.d_h0;
  p.arrived = arrived_;
  p.mask_step = args_.mask.step;
  p.d_output_step = args_.d_outputs.step;
  for (int i = 0; i < kGruReserve; ++i) {
    p.reserve_step[i] = args_.reserve[i].step;
    p.d_gates_step[i] = args_.d_gates[i].step;
    if (i < kGruGates) p.d_reserve_step[i] = args_.d_reserve[i].step;
  }
  return launch_persistent_backward(p, device.stream);
}

template <class T>
Error Backward<T>::run(const Device& device) {
  if (batch() == 0 || units() == 0) return {};
  FUSED_RNN_TRY(start(device));
  if (plan_) return run_persistent(device);
  BackwardStep<T> s = all_steps();
  for (int g = 0; g < kGruGates; ++g) {
    const int slot = g == kCandidate && !after() ? first_.slot[g]
                                                 : last_.slot[g];
    s.operand[recurrent_gate(g, args_.options)] = operand(slot);
  }
  for (Index t = steps() - 1; t >= 0; --t)
    FUSED_RNN_TRY(step(device, t, s));
  if (!args_.d_h0) return {};
  if (steps() > 0) read_products(&s);
  return launch_backward_state(s, args_.d_h0, device.stream);
}

}  // namespace

FUSED_RNN_DEFINE_CUDA_CALL(rnn_backward, RnnBackward, Backward)

}  // namespace cuda
}  // namespace fused_rnn
