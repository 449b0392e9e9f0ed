// Process-wide bookkeeping of the threads that work in teams, so that several
// teams at once do not fight over processors.
#ifndef FUSED_RNN_CORE_PARALLEL_LIMITS_H_
#define FUSED_RNN_CORE_PARALLEL_LIMITS_H_

namespace fused_rnn {

// Threads that work in run_phases at this moment or were asked to.
int working_threads();

// How many of them may run at once: the processors that this process may use.
int processor_limit();
// Another number, for tests of more threads than processors; 0: the processors.
void set_processor_limit(int limit);

// In the child of a fork nobody works.
void forget_working_threads();

}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_PARALLEL_LIMITS_H_
