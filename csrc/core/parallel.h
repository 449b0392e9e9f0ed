// How the core asks its caller for threads.
#ifndef FUSED_RNN_CORE_PARALLEL_H_
#define FUSED_RNN_CORE_PARALLEL_H_

#include <chrono>
#include <functional>

#include "core/types.h"

namespace fused_rnn {

// Threads of the caller. `schedule` hands one closure to another thread and
// returns at once; the closure may run late or, if the pool is busy, after the
// work has ended. With count <= 1, or no schedule, the calling thread works
// alone.
struct Threads {
  int count = 1;
  std::function<void(std::function<void()>)> schedule;
};

// Runs body(phase, part) once for every phase in [0, phases) and part in
// [0, parts). Phase p + 1 starts when every part of p has ended; what p wrote
// is visible to p + 1. Which thread runs which part is not fixed: a part must
// not depend on it.
//
// The calling thread takes part and can finish alone: nobody waits for a
// thread that has not started, only for parts that a running thread has
// claimed. Waiting spins for a bounded time, then yields, then sleeps.
// body must not throw. What the threads share is kept for later calls: once as
// many calls as come at once have been made, none allocates memory.
//
// While other teams have all processors, the calling thread works alone.
// `patience` is for work that one thread alone would do much slower than its
// share (each part's data fits a cache, all parts' does not): so long the call
// sleeps first until they end.
void run_phases(const Threads& threads, Index phases, Index parts,
                const std::function<void(Index phase, Index part)>& body,
                std::chrono::microseconds patience = {});

// One phase.
void run_parts(const Threads& threads, Index parts,
               const std::function<void(Index part)>& body);

}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_PARALLEL_H_
