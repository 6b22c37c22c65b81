// The last unit of BERT: both heads of its pre-training.
#pragma once

#include "core/models/model.h"
#include "core/nn/tied_table.h"

namespace ringside::bert {

inline constexpr Init normal{Init::Kind::normal, 0.02f};
inline constexpr float epsilon = 1e-12f;

/// What the embedding passes to the head around the blocks. The embedding fills it in forward, and
/// the head takes it out.
struct Asked {
  Tensor positions{};  // int32 [B, masked]
};

/// Maps [B, context, width] to B x masked x vocabulary logits, then B x 2 logits. `table` belongs
/// to `embedding`, which must outlive the unit.
std::unique_ptr<Unit> make_head(const ModelConfig& config, std::shared_ptr<Asked> asked,
                                const Unit& embedding, std::shared_ptr<TiedTable> table,
                                Device& device);

}  // namespace ringside::bert
