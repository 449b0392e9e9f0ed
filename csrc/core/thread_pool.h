// A few threads for callers who have none of their own.
#ifndef FUSED_RNN_CORE_THREAD_POOL_H_
#define FUSED_RNN_CORE_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/parallel.h"

namespace fused_rnn {

// Workers start with the pool and end with it. Any number of threads may use a
// pool at once. Closures that come while the queue is full, and those in it when
// the pool ends, never run: run_phases asks for no more.
class ThreadPool {
 public:
  // `threads` counts the calling thread, so there is one worker less; fewer if
  // the system refuses to start them.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }
  // Valid as long as the pool.
  Threads threads();

 private:
  void work();
  void schedule(std::function<void()> closure);
  bool take(std::function<void()>& closure);

  const int size_;
  std::atomic<std::size_t> queued_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // of the queue
  std::condition_variable work_came_;
  // A ring, made with the pool: scheduling allocates nothing.
  std::vector<std::function<void()>> queue_;
  std::size_t first_ = 0;
  int sleeping_ = 0;
  std::vector<std::thread> workers_;
};

// The process's pool, made on first use with as many threads as the process has
// processors, or with what was set. In the child of a fork it is a new one. It
// outlives every user: never joined at exit.
std::shared_ptr<ThreadPool> shared_thread_pool();
int shared_thread_count();
// Calls in progress keep the pool that they started with.
void set_shared_thread_count(int threads);

}  // namespace fused_rnn

#endif  // FUSED_RNN_CORE_THREAD_POOL_H_
