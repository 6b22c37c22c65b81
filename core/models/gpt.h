// GPT: a decoder-only transformer.
#pragma once

#include "core/models/model.h"

namespace ringside {

/// Pre-norm blocks with learned positions and GELU (Radford et al. 2019). Units: "embedding"
/// (tokens, positions), "block.0".. (attention, MLP of 4 x width), "head" (norm and a linear layer
/// to the vocabulary, whose weight with `tied` is the embedding's table, as in GPT-2). Dropout with
/// probability `dropout` follows the embedding and every branch before it is added to the residual
/// stream. Initial values are GPT-2's: N(0, 0.02), divided by sqrt(2 layers) for the layers that
/// project into the residual stream; biases 0. Throws Error for sizes below 1, a `dropout` outside
/// [0, 1) and heads that do not divide the width.
Model make_gpt(const ModelConfig& config, Device& device);

}  // namespace ringside
