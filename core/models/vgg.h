// VGG: convolutions one after the other.
#pragma once

#include "core/models/model.h"

namespace ringside {

/// VGG of `layers` 11, 13, 16 or 19 (Simonyan and Zisserman 2015), without batch norm, for images
/// of `image` x `image` x `channels`, `image` a multiple of 32. Units: "stage.0".. (3x3
/// convolutions up to a max pool; `filters` channels, twice, four, eight and eight times as many),
/// "classifier.0", ".3" and ".6" (linear; `dropout` behind the first two, 0.5 in the paper) through
/// 64 `filters` values, or with `stem` "cifar" 8 `filters`. Parameters have torchvision's names;
/// the columns of "classifier.0.weight" are in the order of our images (height, width, channel).
/// Starts as torchvision does. Throws Error for sizes below 1, a `dropout` outside [0, 1), and an
/// `image`, `layers` or `stem` that cannot be.
Model make_vgg(const ModelConfig& config, Device& device);

}  // namespace ringside
