#include "peer/fsdp/shards.h"

#include <algorithm>

#include "core/scheme/parameter_map.h"

namespace ringside::peer {

Shards::Shards(const FsdpUnits& bundles, int rank, int ranks)
    : bundles_(bundles), rank_(rank), ranks_(ranks) {
  for (std::size_t b = 0; b < bundles.size(); ++b) {
    const std::int64_t count = (bundles[b].count + ranks - 1) / ranks;
    shards_.push_back({total_, count});
    total_ += count;
  }
}

Tensor Shards::of_own(const Tensor& own, std::size_t bundle) const {
  return own.range(shards_[bundle].begin, shards_[bundle].count);
}

Tensor Shards::of_whole(const Tensor& whole, std::size_t bundle) const {
  return whole.range(shards_[bundle].begin * ranks_, padded_count(bundle));
}

Tensor Shards::of_bundle(const Tensor& padded, std::size_t bundle) const {
  return padded.range(begin_in_bundle(bundle), shards_[bundle].count);
}

std::int64_t Shards::real_count(std::size_t bundle) const {
  const std::int64_t left = count(bundle) - begin_in_bundle(bundle);
  return std::clamp<std::int64_t>(left, 0, shards_[bundle].count);
}

ParameterMap Shards::parameter_map() const {
  std::vector<ModelPiece> pieces;
  for (std::size_t b = 0; b < size(); ++b)
    if (const std::int64_t real = real_count(b); real > 0)
      pieces.push_back({begin(b), bundles_[b].begin + begin_in_bundle(b), real});
  return ringside::parameter_map(bundles_.model(), pieces);
}

}  // namespace ringside::peer
