// Copies of a part of each sample.
#pragma once

#include "core/device/device.h"

namespace ringside::layer {

/// `x` is `samples` samples of equal size, one after the other. Returns elements [begin, begin +
/// count) of each sample in a new tensor [samples, count] of the dtype of `x`.
Tensor take_part(Device& device, const Tensor& x, std::int64_t samples, std::int64_t begin,
                 std::int64_t count, MemoryKind kind);

/// Does the opposite: writes the parts, which are `samples` rows of equal length, to each sample of
/// `x` from its element `begin` on, and leaves the rest of `x` alone. Both have the same dtype of
/// floating point.
void put_part(Device& device, const Tensor& parts, const Tensor& x, std::int64_t samples,
              std::int64_t begin);

}  // namespace ringside::layer
