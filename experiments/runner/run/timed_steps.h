// The times of the operations within training steps.
#pragma once

#include <cstdint>
#include <vector>

#include "core/device/timed_device.h"

namespace ringside::runner {

/// Leaves out steps with fewer operations than others: a step whose gradients overflow in fp16 has
/// no update.
void leave_out_short(std::vector<std::vector<TimedOp>>& steps);

/// Collects the operations of steps. Does not wait for the device within or between steps. For the
/// device's thread.
class TimedSteps {
 public:
  explicit TimedSteps(TimedDevice& device) : device_(device) {}

  /// A step has ended; it counts if it `is_measured`.
  void end(bool is_measured) { ends_.push_back({device_.recorded(), is_measured}); }
  /// The host's work since end() belongs to no operation.
  void begin() { device_.pause(); }
  /// The operations of one step in order, each with the medians of its times. Blocks until the
  /// device has run them, and begins anew.
  std::vector<TimedOp> take_medians();

 private:
  struct End {
    std::size_t operations;  // of this step and of all before it
    bool is_measured;
  };
  TimedDevice& device_;
  std::vector<End> ends_;
};

}  // namespace ringside::runner
