// A word in shared memory that threads of other processes can wait for.
#pragma once

#include <atomic>
#include <cstdint>

namespace ringside::shm {

/// A value that threads can wait for. Memory filled with zeros is a flag of value 0. A flag fills
/// one cache line, so that ranks do not disturb each other. (std::atomic::wait does not work
/// between processes.)
class alignas(64) Flag {
 public:
  /// The longest pause of a Backoff, in seconds.
  static constexpr double longest_sleep_s = 0.1;

  std::uint32_t value() const { return value_.load(std::memory_order_acquire); }

  /// A thread that sees the new value also sees everything that was written before set().
  void set(std::uint32_t value) {
    value_.store(value, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) wake();
  }
  void increment() {
    value_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) wake();
  }
  /// Wakes all sleepers, so that they look at the value again.
  void wake();

 private:
  friend class Backoff;
  void sleep(std::uint32_t seen, double longest_s);

  std::atomic<std::uint32_t> value_;
  std::atomic<std::uint32_t> sleepers_;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// The pauses of a waiting thread: it spins for some 10 us, then yields for some 50 us, then
/// sleeps, so that it takes no time from threads that compute.
class Backoff {
 public:
  /// `spin` says that every rank can have a core of its own; otherwise the wait spins only briefly.
  /// Without `yield` it then sleeps at once: where others compute on the core, a thread that yields
  /// gets it back after their time slices, but one that is woken gets it soon.
  explicit Backoff(bool spin, bool yield = true)
      : spins_(spin ? 20 : 1), yields_(yield ? 100 : 0) {}
  /// Returns soon after the flag changes from `seen`, at the latest after `longest_s` (at most
  /// Flag::longest_sleep_s); may return early.
  void pause(Flag& flag, std::uint32_t seen, double longest_s = Flag::longest_sleep_s);
  void restart() { rounds_ = 0; }

 private:
  int spins_, yields_, rounds_ = 0;  // a spinning round reads the flag 32 times, in about 0.5 us
};

}  // namespace ringside::shm
