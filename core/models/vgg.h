// VGG: a plain sequence of convolutions.
#pragma once

#include "core/models/model_info.h"

namespace ringside {

/// VGG (Simonyan and Zisserman 2015) without batch norm, with `layers` 11, 13, 16 or 19, for images
/// of `image` x `image` x `channels`; `image` must be a multiple of 32. Units: "stage.0".. (3x3
/// convolutions, then a max pool; the five stages have 1, 2, 4, 8 and 8 times `filters` channels),
/// "classifier.0", ".3" and ".6" (linear layers; the first two have 64 * `filters` outputs, or
/// 8 * `filters` with `stem` "cifar", and are followed by dropout with probability `dropout`, which
/// is 0.5 in the paper). Parameters have torchvision's names, but the columns of
/// "classifier.0.weight" are in the order of our images (height, width, channel). Initial values
/// are torchvision's. Throws Error for sizes below 1, a `dropout` outside [0, 1), or an invalid
/// `image` or `layers`.
Model make_vgg(const ModelConfig& config, Device& device);
ModelInfo vgg_info();

}  // namespace ringside
