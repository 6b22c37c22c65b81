#include "core/device/cuda/runtime/waits.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace ringside::cuda {
namespace {

// Waits within a running step end after microseconds, so a wait begins with this many yields. Waits
// for a whole step last milliseconds, so after the yields the waiting thread naps between two
// looks.
constexpr int yields = 200;
constexpr std::chrono::microseconds nap{30};

}  // namespace

void Waits::watch(Watch& watch) {
  std::lock_guard lock(mutex_);
  watches_.push_back(&watch);
}

void Waits::unwatch(Watch& watch) {
  std::lock_guard lock(mutex_);
  std::erase(watches_, &watch);
}

void Waits::until(const std::function<bool()>& reached) {
  for (int asked = 0; !reached(); ++asked) {
    {
      std::lock_guard lock(mutex_);
      for (Watch* watch : watches_) watch->check();
    }
    if (asked < yields)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(nap);
  }
}

}  // namespace ringside::cuda
