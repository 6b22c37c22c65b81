// The way of fp32 values from the host to a tensor of any floating-point dtype.
#pragma once

#include <span>

#include "core/device/device.h"

namespace ringside {

/// Writes `values`, as many as `out` has elements, to `out`, rounded to its dtype (fp32, bf16 or
/// fp16). Blocks as Device::write() does. Throws Error for another dtype.
void write_values(Device& device, const Tensor& out, std::span<const float> values);

}  // namespace ringside
