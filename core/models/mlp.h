// MLP: a feed-forward language model.
#pragma once

#include "core/models/model_info.h"

namespace ringside {

/// Embeds each of the `context` tokens, concatenates the embeddings, applies `layers` hidden layers
/// of `width` with ReLU, and predicts the token that follows (Bengio et al. 2003). Units:
/// "embedding", "hidden.0".., "head". An embedding has max(4, width / context) elements. `heads` is
/// not used. Throws Error for sizes below 1.
Model make_mlp(const ModelConfig& config, Device& device);
ModelInfo mlp_info();

}  // namespace ringside
