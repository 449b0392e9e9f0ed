#include "core/parallel.h"

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "core/parallel_limits.h"
#include "core/pause.h"

namespace fused_rnn {
namespace {

using Clock = std::chrono::steady_clock;

// A phase of the smallest split takes some 5 µs: spin a few of them, so that a
// member who is a little late costs no system call. A waiting thread gives its
// processor away after that, and sleeps when the others take really long.
constexpr auto kSpin = std::chrono::microseconds(50);
constexpr auto kYield = std::chrono::milliseconds(1);
// Of a call that waits for whole teams to end, which takes milliseconds.
constexpr auto kNap = std::chrono::microseconds(50);
// Looking at the clock costs as much as a few pauses.
constexpr int kPausesPerLook = 32;

// Members of all teams, asked for if not come yet, each thread once.
std::atomic<int> working{0};
std::atomic<int> limit_override{0};
// Whether this thread is one of them.
thread_local bool is_working = false;

bool too_many_work() {
  return working.load(std::memory_order_relaxed) > processor_limit();
}

// What the members share, for one run after another. Kept for ever, so that
// asking for help allocates nothing: a closure that starts after the end of its
// run finds another run's number and touches nothing else. body_ is the
// caller's and used only for a part that was claimed, which the caller waits
// for.
class Team {
 public:
  using Body = std::function<void(Index, Index)>;

  // One that nobody uses, made if there is none; the caller's until lead() ends.
  static Team& take();

  // `counted`: how many of the members are in `working`.
  void start(Index phases, Index parts, int members, int counted,
             const Body& body) {
    phases_ = phases;
    parts_ = parts;
    members_ = members;
    body_ = &body;
    counted_ = counted;
    // A line each while there are few, so that claiming one's own part in every
    // phase stays in one's own cache.
    stride_ = parts <= 64 ? 64 / static_cast<Index>(sizeof(Flag)) : 1;
    if (parts * stride_ > flags_) {
      flags_ = parts * stride_;
      claimed_.reset(new Flag[flags_]);
    }
    for (Index i = 0; i < parts; ++i) {
      claimed_[i * stride_].store(0, std::memory_order_relaxed);
    }
    std::fegetenv(&environment_);
    helpers_.store(0, std::memory_order_relaxed);
    done_.store(0, std::memory_order_relaxed);
    phase_.store(0, std::memory_order_relaxed);
  }

  // What another thread may call to help with the run that was started. Small
  // and trivial, so that a std::function holds it in itself.
  auto helper() {
    const std::uint32_t run = number(gate_.load(std::memory_order_relaxed));
    return [this, run] {
      if (!enter(run)) return;
      help();
      gate_.fetch_sub(1, std::memory_order_release);
    };
  }

  void lead() {
    const bool nested = is_working;
    is_working = true;
    work(0);
    is_working = nested;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      working.fetch_sub(counted_, std::memory_order_relaxed);
      counted_ = 0;
    }
    gate_.fetch_add(kNextRun, std::memory_order_release);
    taken_.store(false, std::memory_order_release);
  }

 private:
  // For part i: in how many phases somebody has claimed it.
  using Flag = std::atomic<Index>;

  static std::uint32_t number(std::uint64_t gate) {
    return static_cast<std::uint32_t>(gate >> 32);
  }
  // Whether the calling thread is inside now: not if that run has ended.
  bool enter(std::uint32_t run) {
    std::uint64_t gate = gate_.load(std::memory_order_relaxed);
    while (number(gate) == run) {
      if (gate_.compare_exchange_weak(gate, gate + 1,
                                      std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }
  // False while a helper of the last run is still on its way out.
  bool try_to_take() {
    if (taken_.exchange(true, std::memory_order_acquire)) return false;
    if (gate_.load(std::memory_order_acquire) % kNextRun == 0) return true;
    taken_.store(false, std::memory_order_release);
    return false;
  }

  void help() {
    const int member = 1 + helpers_.fetch_add(1, std::memory_order_relaxed);
    // Rounding and flushing of subnormal numbers as the caller has them: the
    // bits must not depend on the thread.
    std::fenv_t mine;
    std::fegetenv(&mine);
    std::fesetenv(&environment_);
    const bool nested = is_working;  // run at once, by the calling thread
    is_working = true;
    work(member);
    is_working = nested;
    std::fesetenv(&mine);
  }

  bool claim(Index part, Index phase) {
    Flag& flag = claimed_[part * stride_];
    Index expected = phase;
    return flag.load(std::memory_order_relaxed) == phase &&
           flag.compare_exchange_strong(expected, phase + 1,
                                        std::memory_order_relaxed);
  }

  void work(int member) {
    const Index first = member % members_ * parts_ / members_;
    Index phase = phase_.load(std::memory_order_acquire);
    while (phase != phases_) {
      // Own parts first, the same in each phase, for the sake of the caches;
      // then those whose member is absent or late.
      for (Index i = 0; i < parts_; ++i) {
        const Index part = first + i < parts_ ? first + i : first + i - parts_;
        if (claim(part, phase)) {
          (*body_)(phase, part);
          finish_part(phase);
        }
      }
      const bool is_helper = member > 0;
      if (is_helper && (phase + 1 == phases_ || leave_if_too_many())) return;
      phase = wait_while(phase);
    }
  }

  void finish_part(Index phase) {
    const Index done = done_.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (done != (phase + 1) * parts_) return;
    // Against wait_while's order: either it sees the new phase, or we see that
    // it sleeps.
    phase_.store(phase + 1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) {
      const std::lock_guard<std::mutex> lock(mutex_);
      phase_ended_.notify_all();
    }
  }

  // True for as many helpers of all teams as there are too many.
  bool leave_if_too_many() {
    if (!too_many_work()) return false;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (counted_ == 0) return true;  // the end
    int count = working.load(std::memory_order_relaxed);
    while (count > processor_limit()) {
      if (working.compare_exchange_weak(count, count - 1,
                                        std::memory_order_relaxed)) {
        --counted_;
        return true;
      }
    }
    return false;
  }

  // The phase after `phase`, once it has started.
  Index wait_while(Index phase) {
    Index now = phase_.load(std::memory_order_acquire);
    if (now != phase) return now;
    const Clock::time_point start = Clock::now();
    for (bool spin = true; spin;) {
      for (int i = 0; i < kPausesPerLook; ++i) {
        now = phase_.load(std::memory_order_acquire);
        if (now != phase) return now;
        pause();
      }
      spin = Clock::now() - start < kSpin && !too_many_work();
    }
    while (Clock::now() - start < kYield) {
      std::this_thread::yield();
      now = phase_.load(std::memory_order_acquire);
      if (now != phase) return now;
    }
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    {
      std::unique_lock<std::mutex> lock(mutex_);
      phase_ended_.wait(lock, [&] {
        now = phase_.load(std::memory_order_seq_cst);
        return now != phase;
      });
    }
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    return now;
  }

  static constexpr std::uint64_t kNextRun = std::uint64_t{1} << 32;
  static std::atomic<Team*> all;  // a list that only grows

  Team* next_ = nullptr;
  std::atomic<bool> taken_{true};
  // The run's number in the upper half, in the lower how many helpers are
  // inside.
  std::atomic<std::uint64_t> gate_{0};

  Index phases_ = 0;
  Index parts_ = 0;
  int members_ = 0;
  const Body* body_ = nullptr;
  std::unique_ptr<Flag[]> claimed_;
  Index flags_ = 0;
  Index stride_ = 0;
  std::fenv_t environment_;
  std::atomic<int> helpers_{0};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;  // of counted_ and of sleeping
  int counted_ = 0;
  std::condition_variable phase_ended_;
  alignas(64) std::atomic<Index> done_{0};
  alignas(64) std::atomic<Index> phase_{0};
};

std::atomic<Team*> Team::all{nullptr};

Team& Team::take() {
  Team* team = all.load(std::memory_order_acquire);
  while (team && !team->try_to_take()) team = team->next_;
  if (team) return *team;
  team = new Team;
  team->next_ = all.load(std::memory_order_relaxed);
  while (!all.compare_exchange_weak(team->next_, team,
                                    std::memory_order_release,
                                    std::memory_order_relaxed)) {
  }
  return *team;
}

// Sleeps while a team of this thread would have no other member.
void wait_for_a_processor(std::chrono::microseconds patience) {
  const Clock::time_point end = Clock::now() + patience;
  while (processor_limit() > 1 && working_threads() + 1 >= processor_limit() &&
         Clock::now() < end) {
    std::this_thread::sleep_for(kNap);
  }
}

void run_alone(Index phases, Index parts, const Team::Body& body) {
  for (Index phase = 0; phase < phases; ++phase) {
    for (Index part = 0; part < parts; ++part) body(phase, part);
  }
}

}  // namespace

int working_threads() { return working.load(std::memory_order_relaxed); }

int processor_limit() {
  static const int processors =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int limit = limit_override.load(std::memory_order_relaxed);
  return limit > 0 ? limit : processors;
}

void set_processor_limit(int limit) {
  limit_override.store(limit, std::memory_order_relaxed);
}

void forget_working_threads() {
  working.store(0, std::memory_order_relaxed);
}

void run_phases(const Threads& threads, Index phases, Index parts,
                const std::function<void(Index phase, Index part)>& body,
                std::chrono::microseconds patience) {
  if (threads.count <= 1 || !threads.schedule || parts <= 1 || phases <= 0) {
    run_alone(phases, parts, body);
    return;
  }
  const int self = is_working ? 0 : 1;
  // A thread that works already holds up those that it would wait for.
  if (self == 1) wait_for_a_processor(patience);
  const Index free = processor_limit() - working_threads() - self;
  const Index wanted = std::min<Index>(threads.count, parts);
  const int members = static_cast<int>(std::min(wanted, 1 + free));
  const int counted = std::max(members, 1) - 1 + self;
  working.fetch_add(counted, std::memory_order_relaxed);
  if (members <= 1) {
    run_alone(phases, parts, body);
    working.fetch_sub(counted, std::memory_order_relaxed);
    return;
  }
  Team& team = Team::take();
  team.start(phases, parts, members, counted, body);
  for (int i = 1; i < members; ++i) threads.schedule(team.helper());
  team.lead();
}

void run_parts(const Threads& threads, Index parts,
               const std::function<void(Index part)>& body) {
  run_phases(threads, 1, parts, [&body](Index, Index part) { body(part); });
}

}  // namespace fused_rnn
