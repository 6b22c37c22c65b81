#include "peer/fsdp/sharded_storage.h"

#include <algorithm>

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

}  // namespace ringside::peer
