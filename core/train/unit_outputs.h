// What the units of a step put out, as far as a diverged loss asks for it.
#pragma once

#include <string>

#include "core/models/model.h"

namespace ringside {

/// Whether outputs were finite: one number a unit and micro-batch stays on the device, 8 bytes and
/// one read of the output each, and is looked at when the loss was not.
class UnitOutputs {
 public:
  /// Of `unit`, one of `units`, in a training pass.
  void look_at(Device& device, const Pass& pass, std::size_t unit, std::size_t units,
               const Tensor& output);
  /// "the output of unit block.3 is the first that is not finite" in the step's passes. Blocks.
  std::string first_not_finite(const Model& model) const;

 private:
  Tensor squares_;  // [micro-batches, units, ExactSum::digits] fp64
};

}  // namespace ringside
