// The blocks of T5, and the values that its units share besides the stream.
#pragma once

#include <memory>

#include "core/models/model.h"
#include "core/nn/relative_bias.h"

namespace ringside::t5 {

/// Tensors that more than one unit reads, for one micro-batch. Values are set in forward. In
/// training the same unit's backward releases them, so that units in between can read them again
/// when they are recomputed; in evaluation the last reader releases them. Gradients are made by the
/// first unit that adds to them and taken by the unit that set the values.
struct Shared {
  Tensor embedded{};  // [B, target_context, width]: the target's stream; set by the embedding
  Tensor embedded_gradient{};
  Tensor encoded{};  // [B, context, width]: the encoder's output; set by the bridge
  Tensor encoded_gradient{};
  std::shared_ptr<SharedBias> encoder_bias = std::make_shared<SharedBias>();
  std::shared_ptr<SharedBias> decoder_bias = std::make_shared<SharedBias>();
};

/// Block `index` of the encoder, which maps [B, context, width] to the same:
/// x += attention(norm(x)); x += mlp(norm(x)). `config` is completed.
std::unique_ptr<Unit> make_encoder_block(std::int64_t index, const ModelConfig& config,
                                         const Shared& shared, Device& device);
/// Block `index` of the decoder, which maps [B, target_context, width] to the same: between the two
/// branches, x += attention(norm(x), encoded).
std::unique_ptr<Unit> make_decoder_block(std::int64_t index, const ModelConfig& config,
                                         std::shared_ptr<Shared> shared, Device& device);

}  // namespace ringside::t5
