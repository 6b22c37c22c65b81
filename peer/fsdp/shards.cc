#include "peer/fsdp/shards.h"

#include <algorithm>

#include "core/scheme/parameter_map.h"

namespace ringside::peer {

Shards::Shards(const FsdpUnits& fsdp_units, int rank, int ranks)
    : fsdp_units_(fsdp_units), rank_(rank), ranks_(ranks) {
  for (std::size_t b = 0; b < fsdp_units.size(); ++b) {
    const std::int64_t count = (fsdp_units[b].count + ranks - 1) / ranks;
    shards_.push_back({total_, count});
    total_ += count;
  }
}

Tensor Shards::of_own(const Tensor& own, std::size_t fsdp_unit) const {
  return own.range(shards_[fsdp_unit].begin, shards_[fsdp_unit].count);
}

Tensor Shards::of_whole(const Tensor& whole, std::size_t fsdp_unit) const {
  return whole.range(shards_[fsdp_unit].begin * ranks_, padded_count(fsdp_unit));
}

Tensor Shards::of_fsdp_unit(const Tensor& padded, std::size_t fsdp_unit) const {
  return padded.range(begin_in_fsdp_unit(fsdp_unit), shards_[fsdp_unit].count);
}

std::int64_t Shards::real_count(std::size_t fsdp_unit) const {
  const std::int64_t left = count(fsdp_unit) - begin_in_fsdp_unit(fsdp_unit);
  return std::clamp<std::int64_t>(left, 0, shards_[fsdp_unit].count);
}

ParameterMap Shards::parameter_map() const {
  std::vector<ModelPiece> pieces;
  for (std::size_t b = 0; b < size(); ++b)
    if (const std::int64_t real = real_count(b); real > 0)
      pieces.push_back({begin(b), fsdp_units_[b].begin + begin_in_fsdp_unit(b), real});
  return ringside::parameter_map(fsdp_units_.model(), pieces);
}

}  // namespace ringside::peer
