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
      : args_(args),
        dropout_(args.recurrent_dropout, state_gates()),
        plan_(plan_persistent<T>(args.shape, args.options,
                                 static_cast<bool>(dropout_))) {}

  void layout(Workspace&);
  Error run(const Device&);

 private:
  Index steps() const { return args_.shape.steps; }
  Index batch() const { return args_.shape.batch; }
  Index units() const { return args_.shape.units; }
  int gates() const { return gate_count(args_.options); }
  int gradients() const { return gate_gradient_count(args_.options); }
  int stages() const { return two_stages(args_.options) ? 2 : 1; }
  bool cell_state() const { return has_cell_state(args_.options); }
  // Gates whose products lead to the state itself; the others', to r∘h.
  int state_gates() const { return stages() == 2 ? kCandidate : gates(); }
  // Whether anything reaches a state beside the products of a step: through
  // z∘h, or a masked step. Without it a product replaces what the carry was.
  bool carries() const {
    return args_.options.cell == Cell::kGru || args_.mask.data || dropout_ ||
           plan_;
  }

  bool wide() const;
  Error start(const Device&) const;
  Error products(const Device&, const GateRuns<C>&, C* to, bool add) const;
  BackwardStep<T> all_steps() const;
  void set_step(Index t, BackwardStep<T>*) const;
  Error step(const Device&, Index t, BackwardStep<T>) const;
  Error run_persistent(const Device&) const;
  void read_products(BackwardStep<T>*) const;

  Rows<C> operand(int slot) const {
    return {operand_ + slot * units(), gates() * units()};
  }

  const RnnBackward<T>& args_;
  const Dropout<T> dropout_;
  const PersistentPlan plan_;
  RecurrentWeights<T> recurrent_;
  GateRuns<C> last_;   // what reads the state; in order of time, the later
  GateRuns<C> first_;  // what reads r∘h
  C* carry_ = nullptr;         // [B, H]
  C* output_carry_ = nullptr;  // [B, H]
  C* d_cell_ = nullptr;        // [B, H]
  C* operand_ = nullptr;       // [B, gates * H]; persistent: [2, gates, B, H]
  unsigned* arrived_ = nullptr;
  C* d_reset_h_ = nullptr;     // [B, H]
  C* product_[kMaxGates] = {};  // [B, H]; gates with one mask share theirs
  int* previous_ = nullptr;    // [T, B]
};

template <class T>
void Backward<T>::layout(Workspace& workspace) {
  const Index states = batch() * units();
  carry_ = workspace.take<C>(states);
  if (cell_state()) d_cell_ = workspace.take<C>(states);
  if (plan_) {
    operand_ = workspace.take<C>(2 * gates() * states);
    arrived_ = workspace.take<unsigned>(1);
  } else {
    recurrent_.take(workspace, args_.weights, gates(), units());
    last_.find(recurrent_.gates, 0, state_gates(), units(), dropout_.apart());
    first_.find(recurrent_.gates, state_gates(), gates(), units(), false);
    operand_ = workspace.take<C>(gates() * states);
    if (stages() == 2) d_reset_h_ = workspace.take<C>(states);
  }
  for (int i = 0; i < dropout_.count(); ++i)
    product_[i] = workspace.take<C>(states);
  if (!args_.mask.data) return;
  previous_ = workspace.take<int>(steps() * batch());
  if (args_.d_outputs && !args_.options.zero_output_for_mask)
    output_carry_ = workspace.take<C>(states);
}

template <class T>
bool Backward<T>::wide() const {
  Alignment<T> all(units());
  all.add(args_.h0);
  all.add(args_.c0);
  all.add_each(args_.weights.peephole);
  all.add(args_.outputs);
  all.add_each(args_.reserve);
  all.add_each(args_.recurrent_dropout);
  all.add(args_.d_outputs);
  all.add_each(args_.d_reserve);
  all.add_each(args_.d_gates);
  all.add(args_.d_h0);
  all.add(args_.d_c0);
  return all.wide();
}

template <class T>
Error Backward<T>::start(const Device& device) const {
  if (!plan_)
    FUSED_RNN_TRY(recurrent_.prepare(args_.weights, units(), device.stream));
  const auto begin = [&](Rows<const T> with, C* scratch) {
    return copy_rows(with, batch(), units(), Rows<C>{scratch, units()},
                     device.stream);
  };
  FUSED_RNN_TRY(begin(args_.d_state, carry_));
  if (cell_state()) FUSED_RNN_TRY(begin(args_.d_cell_state, d_cell_));
  if (output_carry_) FUSED_RNN_TRY(begin({}, output_carry_));
  if (!previous_ || steps() == 0) return {};
  PreviousValid p;
  p.steps = static_cast<int>(steps());
  p.batch = static_cast<int>(batch());
  p.mask = args_.mask;
  p.previous = previous_;
  return launch_previous_valid(p, device.stream);
}

// What gates hand through their recurrent weights: to `to`, or with dropout, if
// that is the carry, beside it.
template <class T>
Error Backward<T>::products(const Device& device, const GateRuns<C>& gates,
                            C* to, bool add) const {
  const bool beside = to == carry_ && dropout_;
  for (int i = 0; i < gates.size; ++i) {
    const auto& run = gates.runs[i];
    const Rows<C> sum{beside ? product_[dropout_.of(run.first)] : to, units()};
    const bool again = i > 0 && !dropout_.apart();
    FUSED_RNN_TRY(multiply(device, false, true, again || (add && !beside),
                           batch(), units(), run.gates * units(),
                           read_only(operand(run.slot)), run.matrix, sum));
  }
  return {};
}

template <class T>
void Backward<T>::read_products(BackwardStep<T>* s) const {
  for (int i = 0; i < dropout_.count(); ++i)
    s->product[i] = {product_[i], units()};
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
  s.cell_states = args_.reserve[kCellState];
  s.c0 = args_.c0;
  std::copy_n(args_.weights.peephole, kMaxGates, s.peephole);
  s.carry_in = {carry_, units()};
  if (carries()) s.carry = {carry_, units()};
  s.d_cell = {d_cell_, units()};
  std::copy_n(args_.recurrent_dropout, kMaxGates, s.dropout);
  if (output_carry_) s.output_carry = {output_carry_, units()};
  return s;
}

template <class T>
void Backward<T>::set_step(Index t, BackwardStep<T>* s) const {
  set_mask(args_.mask, t, &s->shape);
  s->step = t;
  if (previous_) s->previous = previous_ + t * batch();
  s->d_output = at_step(args_.d_outputs, t);
  for (int i = 0; i < kMaxReserve; ++i) {
    s->reserve[i] = at_step(args_.reserve[i], t);
    s->d_reserve[i] = at_step(args_.d_reserve[i], t);
  }
  for (int g = 0; g < gradients(); ++g)
    s->d_gates[g] = at_step(args_.d_gates[g], t);
}

template <class T>
Error Backward<T>::step(const Device& device, Index t,
                        BackwardStep<T> s) const {
  set_step(t, &s);
  if (t + 1 < steps()) read_products(&s);
  FUSED_RNN_TRY(launch_backward(s, 0, device.stream));
  if (stages() == 2) {
    FUSED_RNN_TRY(products(device, first_, d_reset_h_, false));
    s.d_reset_h = {d_reset_h_, units()};
    FUSED_RNN_TRY(launch_backward(s, 1, device.stream));
  }
  return products(device, last_, carry_, carries());
}

template <class T>
Error Backward<T>::run_persistent(const Device& device) const {
  PersistentBackward<T> p;
  p.plan = plan_;
  p.steps = static_cast<int>(steps());
  p.last = all_steps();
  set_step(steps() - 1, &p.last);
  std::copy_n(args_.weights.recurrent, kMaxGates, p.recurrent);
  p.operand[0] = operand_;
  p.operand[1] = operand_ + gates() * batch() * units();
  p.d_h0 = args_.d_h0;
  p.d_c0 = args_.d_c0;
  p.arrived = arrived_;
  p.mask_step = args_.mask.step;
  p.d_output_step = args_.d_outputs.step;
  for (int i = 0; i < kMaxReserve; ++i) {
    p.reserve_step[i] = args_.reserve[i].step;
    p.d_reserve_step[i] = args_.d_reserve[i].step;
  }
  for (int g = 0; g < gradients(); ++g)
    p.d_gates_step[g] = args_.d_gates[g].step;
  return launch_persistent_backward(p, device.stream);
}

template <class T>
Error Backward<T>::run(const Device& device) {
  if (batch() == 0 || units() == 0) return {};
  FUSED_RNN_TRY(start(device));
  if (plan_) return run_persistent(device);
  BackwardStep<T> s = all_steps();
  for (int g = 0; g < gates(); ++g)
    s.operand[recurrent_gate(g, args_.options)] =
        operand((g < state_gates() ? last_ : first_).slot[g]);
  for (Index t = steps() - 1; t >= 0; --t)
    FUSED_RNN_TRY(step(device, t, s));
  if (!args_.d_h0 && !args_.d_c0) return {};
  if (steps() > 0) read_products(&s);
  return launch_backward_states(s, args_.d_h0, args_.d_c0, device.stream);
}

}  // namespace

FUSED_RNN_DEFINE_CUDA_CALL(rnn_backward, RnnBackward, Backward)

}  // namespace cuda
}  // namespace fused_rnn
