// A search for the first unit with an output that is not finite, to explain such a loss.
#pragma once

#include <string>

#include "core/models/model.h"

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
  /// Names the first output of the last step that was not finite, for instance "the output of unit
  /// block.3 is the first that is not finite". Blocks.
  std::string first_not_finite(const Model& model) const;

 private:
  Tensor squares_;  // [micro-batches, units, ExactSum::digits] fp64
};

}  // namespace ringside
