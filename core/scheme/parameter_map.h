// Which parameters of a model a flat range holds.
#pragma once

#include <span>

#include "core/models/model.h"
#include "core/optim/optimizer.h"

namespace ringside {

/// Elements [model_begin, model_begin + count) of the model, at `begin` of a range.
struct ModelPiece {
  std::int64_t begin = 0, model_begin = 0, count = 0;
};

/// `pieces` by `begin`; they may cut through parameters.
ParameterMap parameter_map(const Model& model, std::span<const ModelPiece> pieces);
/// Of a range that is the whole model.
ParameterMap parameter_map(const Model& model);

}  // namespace ringside
