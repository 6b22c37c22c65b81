// The blocks of T5, and the edges of the model.
#pragma once

#include <memory>

#include "core/models/model_config.h"
#include "core/nn/unit.h"

namespace ringside::t5 {

/// The model's edges. Values are set in forward. In training the backward of the bridge, or of the
/// first block of a stack, releases them, so that units in between can read them again when they
/// are recomputed; in evaluation the unit behind their last reader does. Gradients are made by the
/// first unit that adds to them and taken by the unit that set the values.
enum Edges : std::size_t {
  embedded,      // [B, target_context, width]: the target's stream; set by the embedding
  encoded,       // [B, context, width]: the encoder's output; set by the bridge
  encoder_bias,  // core/nn/relative_bias.h; each is set by the first block of its stack
  decoder_bias,
  table,
  edges  // their number
};

/// Block `index` of the encoder, which maps [B, context, width] to the same:
/// x += attention(norm(x)); x += mlp(norm(x)). `config` is completed.
std::unique_ptr<Unit> make_encoder_block(std::int64_t index, const ModelConfig& config,
                                         Device& device);
/// Block `index` of the decoder, which maps [B, target_context, width] to the same: between the two
/// branches, x += attention(norm(x), encoded).
std::unique_ptr<Unit> make_decoder_block(std::int64_t index, const ModelConfig& config,
                                         Device& device);

}  // namespace ringside::t5
