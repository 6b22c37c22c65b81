// AlexNet: five convolutions and three linear layers.
#pragma once

#include "core/models/model_info.h"

namespace ringside {

/// AlexNet on one device (Krizhevsky 2014, "One weird trick"), as in torchvision, for images of
/// `image` x `image` x `channels` with 63 or more pixels a side. The convolutions have 1, 3, 6, 4
/// and 4 times `filters` channels, the hidden linear layers 64 times as many; `filters` is 64 in
/// the paper. Units: "stage.0".."stage.2" (one, one and three convolutions, then a max pool of 3x3
/// at stride 2), "classifier.1", ".4" and ".6" (linear layers). The inputs of the first two linear
/// layers go through dropout with probability `dropout`, which is 0.5 in the paper; it is the last
/// layer of the unit before. Where torchvision averages the last pool's output over 6x6 fields,
/// which for images of 224 pixels are its 6x6 positions, the first linear layer here takes all
/// positions. Parameters have torchvision's names, but the columns of "classifier.1.weight" are in
/// the order of our images (height, width, channel). Initial values are torchvision's. `layers` and
/// `stem` are not used. Throws Error for sizes below 1, a `dropout` outside [0, 1), or an `image`
/// that is too small.
Model make_alexnet(const ModelConfig& config, Device& device);
ModelInfo alexnet_info();

}  // namespace ringside
