// The times of operations within training steps.
#pragma once

#include <cstdint>
#include <vector>

#include "core/device/timed_device.h"

namespace ringside {

/// Leaves out steps with fewer operations than others: a step whose gradients overflow in fp16 has
/// no update.
void leave_out_short(std::vector<std::vector<TimedOp>>& steps);

/// Collects the operations of steps. For the device's thread.
class TimedSteps {
 public:
  explicit TimedSteps(TimedDevice& device) : device_(device) {}

  /// A step has ended; it counts if it `is_measured`.
  void end(bool is_measured);
  /// What the host has done since end() belongs to no operation.
  void begin() { device_.pause(); }
  /// The operations of one step in order, each with the medians of its times.
  std::vector<TimedOp> medians() const;

 private:
  TimedDevice& device_;
  std::vector<std::vector<TimedOp>> steps_;
};

}  // namespace ringside
