#include "peer/fsdp/sharded_storage.h"

#include <algorithm>

#include "core/scheme/parameter_map.h"

namespace ringside::peer {
namespace {

/// Writes initial values into `values`: the elements of the model from `begin` on, which are a part
/// of the FSDP unit.
void write_initial(const InitialValues& initial, const Model& model, const FsdpUnit& fsdp_unit,
                   std::int64_t begin, const Tensor& values) {
  const std::int64_t end = begin + values.count();
  for (std::size_t u = fsdp_unit.first; u <= fsdp_unit.last; ++u) {
    const std::int64_t first = model.first_parameter(u);
    const std::int64_t from = std::max(begin, first);
    const std::int64_t to = std::min(end, first + model.units[u]->layout().count());
    if (from < to)
      initial.write(*model.units[u], first, from - first, values.range(from - begin, to - from));
  }
}

}  // namespace

ShardedStorage::ShardedStorage(const RankContext& context, const Shards& shards, bool whole,
                               MemoryKind kind, DType dtype, HostSide* host)
    : context_(context),
      shards_(shards),
      extent_(whole ? Extent::whole : Extent::shards),
      host_(host),
      values_((host ? host->device() : context.device)
                  .tensor({whole ? shards.whole_count() : shards.own_count()}, kind, dtype)) {}

ShardedStorage::ShardedStorage(const RankContext& context, const Shards& shards,
                               const Tensor& shared)
    : context_(context), shards_(shards), extent_(Extent::shared), values_(shared) {}

Tensor ShardedStorage::shard(std::size_t b) const {
  return extent_ == Extent::shards ? shards_.of_own(values_, b)
                                   : shards_.of_fsdp_unit(fsdp_unit(b), b);
}

Tensor ShardedStorage::own_range(bool copies_values) const {
  if (is_own_range()) return values_;
  const Tensor out =
      context_.device.tensor({shards_.own_count()}, MemoryKind::workspace, values_.dtype());
  for (std::size_t b = 0; copies_values && b < shards_.size(); ++b)
    context_.device.kernels().copy({.in = shard(b), .out = shards_.of_own(out, b)});
  return out;
}

void ShardedStorage::initialise() const {
  const auto initial = initial_values(context_);
  const FsdpUnits& fsdp_units = shards_.fsdp_units();
  for (std::size_t b = 0; b < shards_.size(); ++b) {
    const Tensor home = whole() ? fsdp_unit(b) : shard(b);
    const Tensor kept =
        host_ ? context_.device.tensor(home.shape(), MemoryKind::workspace, home.dtype()) : home;
    const std::int64_t real = whole() ? shards_.count(b) : shards_.real_count(b);
    const std::int64_t begin = fsdp_units[b].begin + (whole() ? 0 : shards_.begin_in_fsdp_unit(b));
    write_initial(*initial, fsdp_units.model(), fsdp_units[b], begin, kept.range(0, real));
    if (real < kept.count())
      context_.device.kernels().fill({.out = kept.range(real, kept.count() - real)});
    if (host_) host_->fetch(kept, home)->wait();
  }
}

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
