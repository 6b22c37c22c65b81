// ResNet: convolutions around which inputs pass unchanged.
#pragma once

#include "core/models/model.h"

namespace ringside {

/// Residual networks of `layers` 18, 34 (two 3x3 convolutions a block), 50, 101 or 152
/// (bottlenecks, whose 3x3 convolution has the stride: v1.5), and 10 and 14, those with one block a
/// stage, for images of `image` x `image` x `channels` (He et al. 2016). Units: "stem" (7x7 with
/// stride 2 and max pool, or with `stem` "cifar" 3x3 alone), "layer1.0".. of four stages of
/// `filters`, twice, four and eight times as many channels, "head" (mean over positions, linear to
/// `classes`). Unit and parameter make torchvision's name, as in "layer1.0.conv1.weight"; those of
/// stem and head have it alone. Starts as torchvision does. Throws Error for sizes below 1 and for
/// `layers` or a `stem` that there are not.
Model make_resnet(const ModelConfig& config, Device& device);

}  // namespace ringside
