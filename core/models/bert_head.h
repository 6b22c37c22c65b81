// The last unit of BERT, with both heads of its pre-training.
#pragma once

#include "core/models/model_config.h"
#include "core/nn/tied_table.h"

namespace ringside::bert {

inline constexpr Init normal{Init::Kind::normal, 0.02f};

/// The model's edges.
enum Edges : std::size_t {
  asked,  // int32 [B, masked]: the positions of the tokens to predict; the head takes them out
  table
};

/// Maps [B, context, width] to B x masked x vocabulary logits, then B x 2 logits. `tied` belongs
/// to `embedding`, which must outlive the unit.
std::unique_ptr<Unit> make_head(const ModelConfig& config, const Unit& embedding,
                                std::shared_ptr<TiedTable> tied, Device& device);

}  // namespace ringside::bert
