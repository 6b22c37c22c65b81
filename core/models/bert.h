// BERT: an encoder-only transformer.
#pragma once

#include "core/models/model_info.h"

namespace ringside {

/// Post-norm blocks with attention in both directions (Devlin et al. 2018), and both heads of
/// BERT's pre-training. Input: a sample's tokens, their segments and `masked` positions
/// (Task::masked_tokens). Output: `masked` x `vocabulary` logits for the tokens at the masked
/// positions, and 2 logits for whether the second segment follows the first (0) or not (1).
///
/// Units: "embedding" (tokens, positions and segments, norm, dropout), "block.0".. (attention, MLP
/// of 4 x width with `activation`, GELU), "head" (for the first position a pooler and a linear
/// layer; for the masked positions a transform, a norm and a product with the embedding's table).
/// Attention has no dropout of its own. Initial values are BERT's: weights N(0, 0.02), biases 0.
/// Norms have `epsilon`, 1e-12. Throws Error for sizes below 1, a `dropout` outside [0, 1), heads
/// that do not divide the width and more masked positions than a sample can have.
Model make_bert(const ModelConfig& config, Device& device);
ModelInfo bert_info();

}  // namespace ringside
