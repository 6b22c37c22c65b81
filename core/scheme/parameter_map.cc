#include "core/scheme/parameter_map.h"

#include <algorithm>

namespace ringside {

ParameterMap parameter_map(const Model& model, std::span<const ModelPiece> pieces) {
  ParameterMap whole;
  std::int64_t first = 0;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    if (model.part) whole.parameters = model.part->first_tensors[u];
    for (const Parameter& parameter : model.units[u]->layout().parameters())
      whole.stretches.push_back({first + parameter.begin, parameter.shape.count(),
                                 whole.parameters++, parameter.shape.rank() > 1});
    first += model.units[u]->layout().count();
  }
  if (model.part) whole.parameters = model.part->all_tensors;
  ParameterMap map{{}, whole.parameters};
  for (const ModelPiece& piece : pieces) {
    const std::int64_t end = piece.model_begin + piece.count;
    auto next = std::partition_point(
        whole.stretches.begin(), whole.stretches.end(),
        [&](const auto& stretch) { return stretch.begin + stretch.count <= piece.model_begin; });
    for (; next != whole.stretches.end() && next->begin < end; ++next) {
      const std::int64_t from = std::max(next->begin, piece.model_begin);
      const std::int64_t to = std::min(next->begin + next->count, end);
      map.stretches.push_back(
          {piece.begin + from - piece.model_begin, to - from, next->parameter, next->matrix});
    }
  }
  return map;
}

ParameterMap parameter_map(const Model& model) {
  const ModelPiece all[] = {{0, 0, model.parameter_count()}};
  return parameter_map(model, all);
}

}  // namespace ringside
