// UpdateTimes: the time that a server's updates take on its device.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>

#include "core/device/device.h"

namespace ringside::ps {

/// Adds up the times between marks. On a device with a queue the time of a mark is known only after
/// a while, and reading it earlier would block: so marks are kept, and read late.
class UpdateTimes {
 public:
  /// The device outlives this object.
  explicit UpdateTimes(Device& device) : device_(device) {}

  /// An update began and ended at these marks.
  void add(const Mark& begin, const Mark& end) {
    unread_.emplace_back(begin, end);
    read(most_unread);
  }
  /// Seconds of all updates. Blocks until they have run.
  double seconds() {
    read(0);
    return seconds_;
  }

 private:
  /// The most updates whose marks are kept; beyond that, the oldest are read. One step of a model
  /// of a few hundred megabytes has fewer updates than this.
  static constexpr std::size_t most_unread = 1024;

  void read(std::size_t left) {
    for (; unread_.size() > left; unread_.pop_front())
      seconds_ += device_.seconds(unread_.front().first, unread_.front().second);
  }

  Device& device_;
  std::deque<std::pair<Mark, Mark>> unread_;  // begin and end
  double seconds_ = 0;
};

}  // namespace ringside::ps
