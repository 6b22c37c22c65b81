// A search for the first unit with an output that is not finite, to explain such a loss.
#pragma once

#include <cstdint>
#include <optional>

#include "core/nn/unit.h"

namespace ringside {

/// Records whether outputs were finite. For each unit and micro-batch one exact sum of squares
/// stays on the device, which costs one read of the output; the host looks at the sums only if the
/// loss was not finite.
class UnitOutputs {
 public:
  /// Records the output of the unit with index `unit` in a training pass; `units` is the number of
  /// units.
  void look_at(Device& device, const Pass& pass, std::size_t unit, std::size_t units,
               const Tensor& output);
  /// The first output of the last step that was not finite, in the order of micro-batches and then
  /// of units.
  struct Found {
    std::int64_t micro_batch = 0;
    std::size_t unit = 0;  // as look_at() counts
  };
  /// Blocks.
  std::optional<Found> first_not_finite() const;

 private:
  Device* device_ = nullptr;
  Tensor squares_;  // [micro-batches, units, ExactSum::digits] fp64
};

}  // namespace ringside
