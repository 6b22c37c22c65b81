// The last unit of BERT: both heads of its pre-training.
#pragma once

#include "core/models/model.h"
#include "core/nn/tied_table.h"

namespace ringside::bert {

inline constexpr Init normal{Init::Kind::normal, 0.02f};
inline constexpr float epsilon = 1e-12f;

/// What goes around the blocks: the embedding leaves it in forward, and the head takes it.
struct Asked {
  Tensor positions{};  // int32 [B, masked]
};

/// [B, context, width] -> B x masked x vocabulary logits, then B x 2. `table` is the embedding's,
/// which outlives the unit.
std::unique_ptr<Unit> make_head(const ModelConfig& config, std::shared_ptr<Asked> asked,
                                const Unit& embedding, std::shared_ptr<TiedTable> table,
                                Device& device);

}  // namespace ringside::bert
