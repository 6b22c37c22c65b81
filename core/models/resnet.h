// ResNet: convolutional blocks with residual connections.
#pragma once

#include "core/models/model_info.h"

namespace ringside {

/// Keys of [model] that only this kind has.
struct ResnetOptions {
  std::int64_t groups = 1;
  std::int64_t group_width = 64;
};

Fields fields_of(ResnetOptions& options);

/// Residual networks (He et al. 2016) for images of `image` x `image` x `channels`. `layers` is 18
/// or 34 (a block has two 3x3 convolutions), or 50, 101 or 152 (a block is a bottleneck, whose 3x3
/// convolution has the stride, as in version 1.5). With 10 or 14 layers each stage has one block:
/// with 10 a block as in 18, with 14 a bottleneck. The 3x3 convolution of a bottleneck has `groups`
/// groups of `group_width` channels each in the first stage, if `filters` is 64: with more than one
/// group, these are ResNeXt (Xie et al. 2017).
/// Units: "stem" (a 7x7 convolution with stride 2 and max pooling, or a 3x3 convolution alone if
/// `stem` is "cifar"), "layer1.0".. (the blocks; the four stages have `filters` channels and twice,
/// four and eight times as many), "head" (mean over positions, linear layer to `classes`). A
/// parameter of a block is called "UNIT.PARAMETER" in torchvision, as in "layer1.0.conv1.weight"; a
/// parameter of stem or head is called "PARAMETER" there. Initial values are torchvision's. Throws
/// Error for sizes below 1, for unknown `layers`, and for groups that are refused for
/// their number or width.
Model make_resnet(const ModelConfig& config, Device& device);
ModelInfo resnet_info();

}  // namespace ringside
