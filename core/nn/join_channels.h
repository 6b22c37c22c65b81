// Concatenation of images along their channels, which come last.
#pragma once

#include <vector>

#include "core/nn/unit.h"

namespace ringside {

/// Copies images [B, H, W, C0], [B, H, W, C1], .. into one new tensor [B, H, W, C0 + C1 + ..], in
/// their order. There is at least one part.
Tensor join_channels(const Unit& unit, const std::vector<Tensor>& parts);

/// The gradient of one part: copies channels [from, from + count) of `dy` [B, H, W, C] to a new
/// tensor [B, H, W, count].
Tensor take_channels(const Unit& unit, const Tensor& dy, std::int64_t from, std::int64_t count);

}  // namespace ringside
