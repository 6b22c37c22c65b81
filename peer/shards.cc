#include "peer/shards.h"

#include <algorithm>

#include "core/scheme/parameter_map.h"

namespace ringside::peer {

Shards::Shards(const Model& model, int rank, int ranks)
    : model_(model), rank_(rank), ranks_(ranks) {
  for (const auto& unit : model.units) {
    const std::int64_t count = (unit->layout().count() + ranks - 1) / ranks;
    shards_.push_back({total_, count});
    total_ += count;
  }
}

Tensor Shards::of_own(const Tensor& own, std::size_t unit) const {
  return own.range(shards_[unit].begin, shards_[unit].count);
}

Tensor Shards::of_whole(const Tensor& whole, std::size_t unit) const {
  return whole.range(shards_[unit].begin * ranks_, padded_count(unit));
}

Tensor Shards::of_unit(const Tensor& padded, std::size_t unit) const {
  return padded.range(begin_in_unit(unit), shards_[unit].count);
}

std::int64_t Shards::real_count(std::size_t unit) const {
  const std::int64_t left = count(unit) - begin_in_unit(unit);
  return std::clamp<std::int64_t>(left, 0, shards_[unit].count);
}

ParameterMap Shards::parameter_map() const {
  std::vector<ModelPiece> pieces;
  for (std::size_t u = 0; u < units(); ++u)
    if (const std::int64_t real = real_count(u); real > 0)
      pieces.push_back({begin(u), model_.first_parameter(u) + begin_in_unit(u), real});
  return ringside::parameter_map(model_, pieces);
}

}  // namespace ringside::peer
