// GPT: a decoder-only transformer.
#pragma once

#include "core/models/model_info.h"

namespace ringside {

/// Pre-norm blocks with learned positions and GELU in its tanh form (Radford et al. 2019), unless
/// `activation` says otherwise. Units: "embedding"
/// (tokens, positions), "block.0".. (attention, and an MLP with 4 * width hidden elements), "head"
/// (norm and a linear layer to the vocabulary). With `tied` the weight of this linear layer is the
/// embedding's token table, as in GPT-2. Dropout with probability `dropout` is applied to the
/// output of the embedding, and to the output of every branch before that output is added to the
/// residual stream. Initial values are GPT-2's: N(0, 0.02), divided by sqrt(2 * layers) for the
/// layers that project into the residual stream; biases are 0. Throws Error for sizes below 1, a
/// `dropout` outside [0, 1) and heads that do not divide the width.
Model make_gpt(const ModelConfig& config, Device& device);
ModelInfo gpt_info();

}  // namespace ringside
