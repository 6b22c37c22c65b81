// GPT: a decoder-only transformer.
#pragma once

#include "core/models/model.h"

namespace ringside {

/// Pre-norm blocks with learned positions and GELU (Radford et al. 2019). Units: "embedding"
/// (tokens, positions), "block.0".. (attention, MLP of 4 x width), "head" (norm, linear to the
/// vocabulary, not tied to the embedding). Throws Error for heads that do not divide the width.
Model make_gpt(const ModelConfig& config, Device& device);

}  // namespace ringside
