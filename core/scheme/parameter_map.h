// The parameters that lie in a flat range of a model.
#pragma once

#include <span>

#include "core/models/model.h"
#include "core/optim/optimizer.h"

namespace ringside {

/// Elements [model_begin, model_begin + count) of the model. In a range they are the elements
/// [begin, begin + count).
struct ModelPiece {
  std::int64_t begin = 0, model_begin = 0, count = 0;
};

/// The map of a range made of `pieces`, which are sorted by `begin` and may cut through parameters.
ParameterMap parameter_map(const Model& model, std::span<const ModelPiece> pieces);
/// The map of a range that is the whole model.
ParameterMap parameter_map(const Model& model);

}  // namespace ringside
