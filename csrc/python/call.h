// Calls of the core from Python: threads, scratch memory, no GIL.
#ifndef FUSED_RNN_PYTHON_CALL_H_
#define FUSED_RNN_PYTHON_CALL_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>

#include "core/rnn.h"
#include "core/parallel.h"
#include "core/thread_pool.h"
#include "python/rnn_layout.h"

namespace fused_rnn {
namespace python {

// Memory aligned as the core's workspaces.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  // std::bad_alloc, which Python sees as MemoryError.
  explicit AlignedBytes(std::size_t bytes);
  void* get() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(void* p) const;
  };
  std::unique_ptr<void, Free> data_;
  std::size_t size_ = 0;
};

// The threads that were asked for, for one call at a time.
class CallThreads {
 public:
  CallThreads();
  const Threads& threads() const { return threads_; }

 private:
  std::shared_ptr<ThreadPool> pool_;
  Threads threads_;
};

// At least so many bytes, valid until the calling thread asks again.
void* scratch(std::size_t bytes);

// ValueError if the environment names an instruction set that is not there.
void require_valid_isa();

// Takes the GIL back after PyEval_SaveThread. While the interpreter ends,
// Python answers that by ending the thread, which would unwind through objects
// that must not be touched without the GIL: sleep instead, until the process is
// gone.
void take_gil(PyThreadState* state);

// Lets other Python threads run while body does, which must not touch Python.
template <class Body>
void without_gil(Body body) {
  PyThreadState* const state = PyEval_SaveThread();
  try {
    body();
  } catch (...) {
    take_gil(state);
    throw;
  }
  take_gil(state);
}

// The same, with the threads that were asked for.
template <class Body>
void with_threads(Body body) {
  without_gil([&] {
    const CallThreads threads;
    body(threads.threads());
  });
}

// Runs a function of the core, such as rnn_forward<float>, on its arguments.
template <class G>
void run(void (*function)(const G&, const Threads&, void*), const G& call,
         const Threads& threads) {
  function(call, threads, scratch(workspace_bytes(call, threads)));
}
template <class T>
void run(const GradientCalls<T>& calls, const Threads& threads) {
  run(&rnn_backward<T>, calls.back, threads);
  run(&rnn_input_gradient<T>, calls.to_x, threads);
  run(&rnn_weight_gradient<T>, calls.to_weights, threads);
}

}  // namespace python
}  // namespace fused_rnn

#endif  // FUSED_RNN_PYTHON_CALL_H_
