// BERT: an encoder-only transformer.
#pragma once

#include "core/models/model.h"

namespace ringside {

/// Post-norm blocks that look both ways (Devlin et al. 2018), with both heads of its pre-training.
/// Of a sample's tokens, their segments and `masked` positions (Task::masked_tokens) it gives
/// `masked` x `vocabulary` logits, what stood at the positions, and 2, whether the second segment
/// follows the first (0) or not (1). Units: "embedding" (tokens, positions and segments, norm,
/// dropout), "block.0".. (attention, MLP of 4 x width with GELU), "head" (pooler and linear of the
/// first position; transform, norm and the embedding's table of the masked ones). Attention has no
/// dropout of its own. Starts as BERT does: N(0, 0.02), biases 0; norms have epsilon 1e-12. Throws
/// Error for sizes below 1, a `dropout` outside [0, 1), heads that do not divide the width and more
/// masked positions than there are.
Model make_bert(const ModelConfig& config, Device& device);

}  // namespace ringside
