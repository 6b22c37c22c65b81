// Timings: the durations of operations on a device.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "core/device/cost.h"
#include "core/device/sim/timed_operations.h"
#include "core/sim/device_spec.h"

namespace ringside::sim {

/// An operation that was timed has its measured time; every other one takes max(operations / peak,
/// bytes / bandwidth) / efficiency + launch. For use by one thread.
class Timings {
 public:
  /// Throws Error if, for fp32 or for another dtype in the device's tflops, a class of operations
  /// has no efficiency and the class that may stand in for it (stand_in()) has none either.
  Timings(const DeviceSpec& device, bool tf32, const std::vector<TimedOperation>& timed);

  /// Throws Error for a product in a dtype that the device's figures lack.
  OpTime time(const OpCost& cost);

 private:
  static constexpr std::size_t dtypes = 3;  // fp32 and the two of 16 bits

  /// The figures of one class and dtype, which are looked up by name only once.
  struct Figures {
    std::string dtype;            // in cluster files
    double operations_per_s = 0;  // 0: the device's figures lack the dtype
    Efficiency efficiency{};
  };

  const DeviceSpec device_;
  const bool tf32_;
  TimedOperations timed_;
  std::array<std::array<Figures, dtypes>, op_classes> figures_{};
};

}  // namespace ringside::sim
