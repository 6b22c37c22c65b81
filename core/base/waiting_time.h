// How long somebody has waited.
#pragma once

#include <algorithm>

namespace ringside {

/// The time of a wait, for its deadline. A process that was stopped (Ctrl-Z, SIGSTOP) has not
/// waited meanwhile: those that it waits for were stopped too. So a look counts at most twice the
/// time after which whoever waits looks again.
class WaitingTime {
 public:
  /// Whoever waits calls seconds() at least every `nap_s`.
  WaitingTime(double now, double nap_s) : last_(now), most_(2 * nap_s) {}

  /// Of the wait so far; `now` is of the same clock at every call.
  double seconds(double now) {
    seconds_ += std::min(now - last_, most_);
    last_ = now;
    return seconds_;
  }

 private:
  double last_, most_, seconds_ = 0;
};

}  // namespace ringside
