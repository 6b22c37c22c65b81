// ResNet: convolutional blocks with residual connections.
#pragma once

#include "core/models/model.h"

namespace ringside {

/// Residual networks (He et al. 2016) for images of `image` x `image` x `channels`. `layers` is 18
/// or 34 (two 3x3 convolutions a block), 50, 101 or 152 (bottlenecks, whose 3x3 convolution has the
/// stride, as in version 1.5), or with one block a stage 10 (blocks as in 18) or 14 (bottlenecks).
/// Units: "stem" (7x7 with stride 2 and max pool, or with `stem` "cifar" a 3x3 convolution alone),
/// "layer1.0".. (four stages with `filters` channels and twice, four and eight times as many),
/// "head" (mean over positions, linear layer to `classes`). "UNIT.PARAMETER" is the name in
/// torchvision, as in "layer1.0.conv1.weight"; in stem and head "PARAMETER" alone is. Initial
/// values are torchvision's. Throws Error for sizes below 1 and for unknown `layers`.
Model make_resnet(const ModelConfig& config, Device& device);

}  // namespace ringside
