// run_phases with every kind of team: alone, full, with absent and late
// workers, with more threads than processors, several at once and nested.
// Counts allocations, too.
#include "core/parallel.h"

#include <atomic>
#include <chrono>
#include <cfenv>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "core/check.h"
#include "core/parallel_limits.h"
#include "core/thread_pool.h"

namespace {

std::atomic<long> allocations{0};

void* allocate(std::size_t size, std::size_t alignment) {
  ++allocations;
  // Whole multiples of the alignment, and not nothing, as it has to be.
  size = (size / alignment + 1) * alignment;
  if (void* p = std::aligned_alloc(alignment, size)) return p;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) {
  return allocate(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}

namespace fused_rnn {
namespace {

using Closure = std::function<void()>;

// Every part of a phase adds the sums that all parts of the last phase left, so
// a part that runs twice, never, or before its phase changes the result.
void check_phases(const char* name, const Threads& threads, Index phases,
                  Index parts) {
  std::vector<unsigned> last(parts, 1), now(parts, 0);
  std::vector<std::atomic<int>> runs(phases * parts);
  for (auto& run : runs) run = 0;
  run_phases(threads, phases, parts, [&](Index phase, Index part) {
    std::vector<unsigned>& from = phase % 2 ? now : last;
    std::vector<unsigned>& to = phase % 2 ? last : now;
    unsigned sum = static_cast<unsigned>(part);
    for (unsigned value : from) sum = sum * 31 + value;
    to[part] = sum;
    ++runs[phase * parts + part];
  });
  std::vector<unsigned> want(parts, 1), next(parts);
  for (Index phase = 0; phase < phases; ++phase) {
    for (Index part = 0; part < parts; ++part) {
      next[part] = static_cast<unsigned>(part);
      for (unsigned value : want) next[part] = next[part] * 31 + value;
    }
    want.swap(next);
  }
  bool once = true;
  for (auto& run : runs) once = once && run == 1;
  CHECK_THAT(once, "%s: %d phases of %d parts, not each once", name,
             static_cast<int>(phases), static_cast<int>(parts));
  CHECK_THAT(want == (phases % 2 ? now : last),
             "%s: %d phases of %d parts, wrong order", name,
             static_cast<int>(phases), static_cast<int>(parts));
}

void check_sizes(const char* name, const Threads& threads) {
  for (Index phases : {0, 1, 2, 3, 200}) {
    for (Index parts : {0, 1, 2, 3, 7, 8, 65}) {
      check_phases(name, threads, phases, parts);
    }
  }
}

void test_pools() {
  Threads none;
  check_sizes("no threads", none);
  none.count = 4;
  check_sizes("no schedule", none);
  for (int count : {1, 2, 4, 8}) {
    ThreadPool pool(count);
    check_sizes("pool", pool.threads());
    Threads more = pool.threads();
    more.count = 2 * count;
    check_sizes("more than the pool has", more);
  }
}

// Workers that never come, that come after the end, and that run at once in the
// calling thread (as a full queue does in Eigen's pool).
void test_absent_and_late_workers() {
  Threads absent;
  absent.count = 4;
  absent.schedule = [](Closure) {};
  check_sizes("absent", absent);

  std::vector<Closure> late;
  Threads keeping;
  keeping.count = 4;
  keeping.schedule = [&](Closure closure) {
    late.push_back(std::move(closure));
  };
  check_sizes("late", keeping);
  CHECK_THAT(!late.empty(), "no worker was asked for");
  // What they could touch of the caller's is gone by now; ASan would tell.
  for (Closure& closure : late) closure();
  // Nor may they meddle with a run that has the same memory now.
  late.clear();
  check_phases("to be late", keeping, 1, 4);
  const std::vector<Closure> earlier = std::move(late);
  std::atomic<int> parts{0};
  run_phases(keeping, 3, 4, [&](Index, Index part) {
    const int before = ++parts;
    if (part == 0)
      for (const Closure& closure : earlier) closure();
    CHECK_THAT(parts == before, "%d parts ran within another",
               parts - before);
  });

  Threads inline_only;
  inline_only.count = 4;
  inline_only.schedule = [](Closure closure) { closure(); };
  check_sizes("inline", inline_only);

  // Workers that come in the middle.
  std::vector<std::thread> started;
  Threads slow;
  slow.count = 4;
  slow.schedule = [&](Closure closure) {
    started.emplace_back([closure] {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      closure();
    });
  };
  for (Index phases : {1, 50, 2000}) check_phases("slow", slow, phases, 4);
  for (std::thread& thread : started) thread.join();
}

// A pool all of whose workers wait for the caller: it must not wait for them.
void test_busy_pool() {
  ThreadPool pool(4);
  const Threads threads = pool.threads();
  std::mutex gate;
  gate.lock();
  std::atomic<int> waiting{0};
  for (int i = 1; i < threads.count; ++i) {
    threads.schedule([&] {
      ++waiting;
      const std::lock_guard<std::mutex> wait(gate);
      --waiting;
    });
  }
  while (waiting != threads.count - 1) std::this_thread::yield();
  // More than are ever kept.
  for (int i = 0; i < 10; ++i) check_sizes("busy pool", threads);
  gate.unlock();
  while (waiting != 0) std::this_thread::yield();
}

// One part far longer than all spinning and yielding: the others sleep.
void test_long_part() {
  ThreadPool pool(3);
  for (int slow_part = 0; slow_part < 3; ++slow_part) {
    std::atomic<int> runs{0};
    run_phases(pool.threads(), 3, 3, [&](Index phase, Index part) {
      if (phase == 1 && part == slow_part) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      ++runs;
    });
    CHECK_THAT(runs == 9, "%d of 9 parts ran", runs.load());
  }
}

void test_teams_at_once() {
  ThreadPool pool(4);
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&pool] {
      for (int n = 0; n < 20; ++n) {
        check_phases("at once", pool.threads(), 50, 4);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK_THAT(working_threads() == 0, "%d threads left counted",
             working_threads());
}

// Once there are teams for all callers and workers that are on their way out.
void test_no_allocations() {
  ThreadPool pool(4);
  const Threads threads = pool.threads();
  const std::function<void(Index, Index)> nothing = [](Index, Index) {};
  const auto run = [&](int times) {
    for (int i = 0; i < times; ++i) run_phases(threads, 3, 4, nothing);
  };
  run(100);
  const long before = allocations;
  run(1000);
  CHECK_THAT(allocations - before < 20, "%ld allocations in 1000 runs",
             allocations - before);
}

void test_nested_teams() {
  ThreadPool pool(4);
  std::atomic<int> runs{0};
  run_parts(pool.threads(), 4, [&](Index) {
    run_phases(pool.threads(), 20, 4, [&](Index, Index) { ++runs; });
  });
  CHECK_THAT(runs == 4 * 20 * 4, "%d parts ran", runs.load());
  CHECK_THAT(working_threads() == 0, "%d threads left counted",
             working_threads());
}

// Teams that ask for more than the processors give do so one thread less each.
void test_limit() {
  set_processor_limit(3);
  int asked = 0;
  Threads counting;
  counting.count = 8;
  counting.schedule = [&](Closure) { ++asked; };
  run_parts(counting, 8, [&](Index part) {
    if (part != 0) return;
    CHECK_THAT(asked == 2, "%d workers asked for, 2 expected", asked);
  });
  set_processor_limit(0);
}

// Who has patience starts when the team that has the processors has ended, who
// has none, or none left, while it runs.
void test_patience() {
  using std::chrono::microseconds;
  set_processor_limit(2);
  for (microseconds patience :
       {microseconds(0), microseconds(2000), microseconds(60'000'000)}) {
    const bool waits = patience > microseconds(1'000'000);
    ThreadPool pool(2);
    std::atomic<bool> runs{false}, may_end{false}, ended{false};
    std::thread other([&] {
      run_parts(pool.threads(), 2, [&](Index) {
        runs = true;
        while (!may_end) std::this_thread::yield();
      });
      ended = true;
    });
    while (!runs) std::this_thread::yield();
    std::atomic<int> parts{0};
    std::thread caller([&] {
      run_phases(
          pool.threads(), 1, 2,
          [&](Index, Index) {
            ++parts;
            CHECK_THAT(working_threads() <= 2 || !waits,
                       "%d threads work, the other team among them",
                       working_threads());
          },
          patience);
    });
    // Without patience it needs no end of the other.
    while (!waits && parts < 2) std::this_thread::yield();
    if (waits) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK_THAT(parts == (waits ? 0 : 2), "%d parts ran before the other ended",
               parts.load());
    may_end = true;
    other.join();
    caller.join();
    CHECK_THAT(ended && parts == 2, "%d parts ran", parts.load());
  }
  CHECK_THAT(working_threads() == 0, "%d threads left counted",
             working_threads());
  set_processor_limit(0);
}

// Members round, and treat subnormal numbers, as the caller does.
void test_float_environment() {
  ThreadPool pool(4);
  std::fesetround(FE_UPWARD);
  std::atomic<int> other{0};
  run_phases(pool.threads(), 200, 4, [&](Index, Index) {
    if (std::fegetround() != FE_UPWARD) ++other;
  });
  std::fesetround(FE_TONEAREST);
  CHECK_THAT(other == 0, "%d parts rounded in another direction",
             other.load());
  // And the workers have their own back.
  std::atomic<int> wrong{0}, done{0};
  for (int i = 0; i < 8; ++i) {
    pool.threads().schedule([&] {
      if (std::fegetround() != FE_TONEAREST) ++wrong;
      ++done;
    });
  }
  while (done != 8) std::this_thread::yield();
  CHECK_THAT(wrong == 0, "%d workers kept the caller's rounding",
             wrong.load());
}

void test_shared_pool() {
  set_shared_thread_count(3);
  const std::shared_ptr<ThreadPool> pool = shared_thread_pool();
  CHECK_THAT(pool->size() == 3, "%d threads", pool->size());
  CHECK_THAT(shared_thread_pool() == pool, "a second pool");
  set_shared_thread_count(2);
  CHECK_THAT(shared_thread_pool()->size() == 2, "size not changed");
  check_phases("replaced pool", pool->threads(), 10, 4);
}

}  // namespace
}  // namespace fused_rnn

int main() {
  using namespace fused_rnn;
  test_limit();
  test_patience();
  test_float_environment();
  // The machine may have fewer processors than a team has members.
  for (int limit : {0, 8}) {
    set_processor_limit(limit);
    test_pools();
    test_absent_and_late_workers();
    test_busy_pool();
    test_long_part();
    test_teams_at_once();
    test_nested_teams();
    test_no_allocations();
    test_shared_pool();
  }
  return test::report("parallel_test");
}
