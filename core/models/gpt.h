// GPT: a decoder-only transformer.
#pragma once

#include "core/models/model.h"

namespace ringside {

/// Pre-norm blocks with learned positions and GELU (Radford et al. 2019). Units: "embedding"
/// (tokens, positions), "block.0".. (attention, MLP of 4 x width), "head" (norm, linear to the
/// vocabulary, not tied to the embedding). Starts as GPT-2 does: N(0, 0.02), what projects into the
/// residual stream smaller by sqrt(2 layers), biases 0. Throws Error for sizes below 1 and for
/// heads that do not divide the width.
Model make_gpt(const ModelConfig& config, Device& device);

}  // namespace ringside
