#include "core/shm/flag.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace ringside::shm {
namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Not the private kind of futex, because waiters may be in other processes.
long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout,
                 nullptr, 0);
}

}  // namespace

void Flag::wake() { futex(value_, FUTEX_WAKE, INT_MAX, nullptr); }

void Flag::sleep(std::uint32_t seen, double longest_s) {
  const double s = std::clamp(longest_s, 0.0, longest_sleep_s);
  const timespec longest{.tv_sec = 0, .tv_nsec = static_cast<long>(s * 1e9)};
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  // The kernel sleeps only if the value is still `seen`. By then this thread is counted as a
  // sleeper, so a set() either changes the value before that check or wakes this thread.
  futex(value_, FUTEX_WAIT, seen, &longest);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

void Backoff::pause(Flag& flag, std::uint32_t seen, double longest_s) {
  if (rounds_ < spins_) {
    for (int i = 0; i < 32 && flag.value() == seen; ++i) relax();
  } else if (rounds_ < spins_ + yields_) {
    sched_yield();
  } else {
    flag.sleep(seen, longest_s);
    return;
  }
  ++rounds_;
}

}  // namespace ringside::shm
