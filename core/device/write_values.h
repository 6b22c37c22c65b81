// Values of the host's for a tensor of any floating dtype.
#pragma once

#include <span>

#include "core/device/device.h"

namespace ringside {

/// As many values as `out` has elements, rounded to its dtype (fp32, bf16, fp16). Blocks as
/// Device::write() does. Throws Error for another dtype.
void write_values(Device& device, const Tensor& out, std::span<const float> values);

}  // namespace ringside
