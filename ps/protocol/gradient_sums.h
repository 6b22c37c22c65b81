// GradientSums: sums of the gradients that make a server's updates.
#pragma once

#include "core/device/device.h"
#include "ps/protocol/chunk_state.h"

namespace ringside::ps {

/// As many elements as the server has parameters: for each chunk the sum of the gradients of its
/// update under way. If a step has several pushes, the sum of each is made by itself, and then
/// added to those before. Where pushes are merged, a gradient counts by its weight.
class GradientSums {
 public:
  struct Of {
    std::int64_t pushes = 1;  // of a step
    bool by_weight = false;
  };
  /// The device outlives the sums.
  GradientSums(Device& device, std::int64_t count, DType dtype, const Of& of);

  /// Adds a gradient that was just taken from the chunk.
  void add(const ChunkState& state, const PushedGradient& gradient);
  Tensor of(const ChunkState& state) const;
  const Tensor& all() const { return total_; }

 private:
  Device& device_;
  Of of_;
  Tensor total_;
  Tensor partial_;  // the sum of a push after the step's first; empty if there is one push a step
};

}  // namespace ringside::ps
