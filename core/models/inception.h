// Inception-v3: blocks whose branches apply kernels of different sizes to the same image.
#pragma once

#include "core/models/model_info.h"

namespace ringside {

/// Inception-v3 (Szegedy et al. 2016), as in torchvision, for images of `image` x `image` x
/// `channels` with 75 or more pixels a side. The published model has 48 `layers` on its longest
/// path, 32 `filters` in its first convolution, and takes images of 299 pixels. With other
/// `filters` all convolutions have `filters` / 32 of the published channels, rounded up. With 24
/// `layers`, a size of this project alone, every kind of block occurs once. Every convolution is
/// followed by a batch norm (epsilon 0.001) and relu. Units: "stem.0" and "stem.1" (three and two
/// convolutions, then a max pool), the blocks under torchvision's names, "Mixed_5b", "Mixed_6a" and
/// so on (branches of convolutions, whose results are joined along the channels), and "head" (mean
/// over positions, dropout with probability `dropout`, which is 0.5 in torchvision, and a linear
/// layer to `classes`). The auxiliary classifier of the paper, which helps training from within the
/// model and is left out afterwards, is not part of this model: benchmarks of throughput train
/// without it too. A parameter of a block is called "UNIT.PARAMETER" in torchvision, a parameter of
/// stem or head "PARAMETER". Initial values are torchvision's. `stem` is not used. Throws Error for
/// sizes below 1, a `dropout` outside [0, 1), or an invalid `layers` or `image`.
Model make_inception(const ModelConfig& config, Device& device);
ModelInfo inception_info();

}  // namespace ringside
