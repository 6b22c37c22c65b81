// The last unit of BERT, with both heads of its pre-training.
#pragma once

#include "core/models/model.h"
#include "core/nn/tied_table.h"

namespace ringside::bert {

inline constexpr Init normal{Init::Kind::normal, 0.02f};

/// The positions of the tokens to predict. The embedding sets them in its forward pass, and the
/// head takes them out; the blocks in between do not see them.
struct Asked {
  Tensor positions{};  // int32 [B, masked]
};

/// Maps [B, context, width] to B x masked x vocabulary logits, then B x 2 logits. `table` belongs
/// to `embedding`, which must outlive the unit.
std::unique_ptr<Unit> make_head(const ModelConfig& config, std::shared_ptr<Asked> asked,
                                const Unit& embedding, std::shared_ptr<TiedTable> table,
                                Device& device);

}  // namespace ringside::bert
