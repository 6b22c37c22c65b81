// GPT: a decoder-only transformer.
#pragma once

#include "core/models/model.h"

namespace ringside {

/// Pre-norm blocks with learned positions and GELU (Radford et al. 2019). Units: "embedding"
/// (tokens, positions), "block.0".. (attention, MLP of 4 x width), "head" (norm, linear to the
/// vocabulary: with `tied`, as in GPT-2, by the embedding's table). `dropout` leaves out of what
/// the embedding gives and of what flows into the residual stream. Starts as GPT-2 does: N(0,
/// 0.02), what projects into the residual stream smaller by sqrt(2 layers), biases 0. Throws Error
/// for sizes below 1, a `dropout` outside [0, 1) and heads that do not divide the width.
Model make_gpt(const ModelConfig& config, Device& device);

}  // namespace ringside
