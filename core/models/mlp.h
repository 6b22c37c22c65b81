// MLP: a feed-forward language model.
#pragma once

#include "core/models/model.h"

namespace ringside {

/// Embeds each of the `context` tokens, concatenates, `layers` hidden layers of `width` with
/// ReLU, predicts the token that follows (Bengio et al. 2003). Units: "embedding", "hidden.0"..,
/// "head". Embeddings have width / context elements, at least 4 (exactly: max(4, width/context)).
Model make_mlp(const ModelConfig& config, Device& device);

}  // namespace ringside
