// The length of a wait, to compare with a deadline.
#pragma once

#include <algorithm>

namespace ringside {

/// The length of a wait, to compare with a deadline. The time during which this process was stopped
/// (Ctrl-Z, SIGSTOP) does not count: the processes that it waits for were stopped too. A stop
/// shows as a long time between two calls of seconds(), so each call adds at most 2 * nap_s.
class WaitingTime {
 public:
  /// The waiting caller calls seconds() at least every `nap_s` seconds.
  WaitingTime(double now, double nap_s) : last_(now), most_(2 * nap_s) {}

  /// Returns the seconds waited so far; `now` comes from the same clock in every call.
  double seconds(double now) {
    seconds_ += std::min(now - last_, most_);
    last_ = now;
    return seconds_;
  }

 private:
  double last_, most_, seconds_ = 0;
};

}  // namespace ringside
