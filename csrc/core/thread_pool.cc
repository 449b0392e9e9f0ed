#include "core/thread_pool.h"

#include <pthread.h>

#include <chrono>
#include <new>
#include <system_error>
#include <utility>

#include "core/parallel_limits.h"
#include "core/pause.h"

namespace fused_rnn {
namespace {

using Clock = std::chrono::steady_clock;

// Waking a sleeping thread takes as long as a step of a small layer, so workers
// look for the next call for a while before they sleep.
constexpr auto kSpin = std::chrono::microseconds(50);
// So many requests for help in advance of the workers are not all meant in
// earnest: most of the calls that they came from have ended.
constexpr std::size_t kQueue = 256;

}  // namespace

ThreadPool::ThreadPool(int threads)
    : size_(threads > 1 ? threads : 1), queue_(kQueue) {
  try {
    for (int i = 1; i < size_; ++i) {
      workers_.emplace_back([this] { work(); });
    }
  } catch (const std::system_error&) {
    // As many as there are: the calling thread can do everything alone.
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  work_came_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

Threads ThreadPool::threads() {
  Threads threads;
  threads.count = size_;
  if (size_ > 1) {
    threads.schedule = [this](std::function<void()> closure) {
      schedule(std::move(closure));
    };
  }
  return threads;
}

void ThreadPool::schedule(std::function<void()> closure) {
  bool wake;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::size_t queued = queued_.load(std::memory_order_relaxed);
    if (queued == kQueue) return;
    queue_[(first_ + queued) % kQueue] = std::move(closure);
    queued_.store(queued + 1, std::memory_order_relaxed);
    wake = sleeping_ > 0;
  }
  if (wake) work_came_.notify_one();
}

bool ThreadPool::take(std::function<void()>& closure) {
  if (queued_.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::size_t queued = queued_.load(std::memory_order_relaxed);
  if (queued == 0) return false;
  closure = std::move(queue_[first_]);
  queue_[first_] = nullptr;
  first_ = (first_ + 1) % kQueue;
  queued_.store(queued - 1, std::memory_order_relaxed);
  return true;
}

void ThreadPool::work() {
  std::function<void()> closure;
  while (!stop_) {
    const Clock::time_point idle_since = Clock::now();
    bool found = take(closure);
    while (!found && !stop_ && Clock::now() - idle_since < kSpin &&
           working_threads() < processor_limit()) {
      for (int i = 0; i < 8; ++i) pause();
      found = take(closure);
    }
    if (found) {
      closure();
      closure = nullptr;
      continue;
    }
    std::unique_lock<std::mutex> lock(mutex_);
    ++sleeping_;
    work_came_.wait(lock, [this] { return stop_ || queued_ > 0; });
    --sleeping_;
  }
}

namespace {

struct Shared {
  std::mutex mutex;
  int threads = 0;  // 0: not set
  std::shared_ptr<ThreadPool> pool;
};

alignas(Shared) unsigned char storage[sizeof(Shared)];

// Its threads do not exist in a forked child, and its locks may be held by
// them: forget all of it but the number, without running a destructor.
void forget_pool() {
  const int threads = reinterpret_cast<Shared*>(storage)->threads;
  (new (storage) Shared)->threads = threads;
  forget_working_threads();
}

Shared& shared() {
  static Shared* const made = [] {
    Shared* const fresh = new (storage) Shared;
    pthread_atfork(nullptr, nullptr, forget_pool);
    return fresh;
  }();
  return *made;
}

int count_of(const Shared& s) {
  return s.threads > 0 ? s.threads : processor_limit();
}

}  // namespace

std::shared_ptr<ThreadPool> shared_thread_pool() {
  Shared& s = shared();
  const std::lock_guard<std::mutex> lock(s.mutex);
  if (!s.pool) s.pool = std::make_shared<ThreadPool>(count_of(s));
  return s.pool;
}

int shared_thread_count() {
  Shared& s = shared();
  const std::lock_guard<std::mutex> lock(s.mutex);
  return count_of(s);
}

void set_shared_thread_count(int threads) {
  Shared& s = shared();
  std::shared_ptr<ThreadPool> old;  // joined outside the lock
  const std::lock_guard<std::mutex> lock(s.mutex);
  if (s.threads == threads) return;
  s.threads = threads;
  old.swap(s.pool);
}

}  // namespace fused_rnn
