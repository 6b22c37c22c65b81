#include "peer/fsdp/unsharded_units.h"

#include <fmt/format.h>

#include <utility>

#include "peer/schemes/exposed.h"

namespace ringside::peer {
GatheredUnits::GatheredUnits(const RankContext& context, Model& model, const Shards& shards,
                             const ShardedStorage& parameters, ShardCarrier* carrier,
                             std::function<void(std::size_t)> update)
    : context_(context),
      model_(model),
      shards_(shards),
      parameters_(parameters),
      carrier_(carrier),
      update_(std::move(update)) {
  for (std::size_t u = 0; u < model.units.size(); ++u) lenders_.push_back(model.lender_of(u));
  for (std::size_t b = 0; parameters.whole() && b < shards.size(); ++b)
    gathered_[b].padded = parameters.bundle(b);
}

void GatheredUnits::prepare(std::size_t bundle) {
  if (!parameters_.host() || gathered_.contains(bundle) || copied_.contains(bundle)) return;
  update_(bundle);
  const Tensor home = parameters_.shard(bundle);
  const Tensor shard =
      context_.device.tensor(home.shape(), MemoryKind::communication, home.dtype());
  copied_[bundle] = {shard, parameters_.host()->store(home, shard, nullptr)};
}

Tensor GatheredUnits::shard(std::size_t bundle) {
  if (!parameters_.host()) {
    update_(bundle);
    return parameters_.shard(bundle);
  }
  prepare(bundle);
  const Copied copied = std::move(copied_.extract(bundle).mapped());
  const std::string name = "copy of the shard of " + shards_.bundles()[bundle].name;
  {
    const auto span = context_.timeline.scope(Activity::exposed, "wait " + name);
    copied.copy->wait();
  }
  const auto [begin, end] = copied.copy->span();
  context_.timeline.add(
      Activity::communication, name, {begin}, {end},
      {.track = "host", .bytes = static_cast<std::int64_t>(copied.shard.bytes())});
  return copied.shard;
}

void GatheredUnits::gather(std::size_t bundle, UnshardedUnits& entry) {
  const Tensor own = shard(bundle);
  entry.work = begin_traced(context_.timeline, shards_.bundles()[bundle].name,
                            [&] { return carrier_->gather(bundle, own, entry.padded); });
}

void GatheredUnits::begin(std::size_t bundle) {
  if (old_.erase(bundle) > 0) return gather(bundle, gathered_[bundle]);
  if (gathered_.contains(bundle)) return;
  prepare(bundle);
  if (!carrier_) return;  // the shard is the bundle
  UnshardedUnits& entry = gathered_[bundle];
  if (parameters_.shared()) {
    entry.padded = parameters_.bundle(bundle);
    const auto others =
        static_cast<std::int64_t>(entry.padded.bytes() - parameters_.shard(bundle).bytes());
    read_ = read_ + Traffic{others, others, true};
    return;
  }
  entry.padded = context_.device.tensor({shards_.padded_count(bundle)}, MemoryKind::communication,
                                        parameters_.values().dtype());
  gather(bundle, entry);
}

const Tensor& GatheredUnits::wait(std::size_t bundle) {
  if (!carrier_ && (parameters_.whole() || !gathered_.contains(bundle)))
    gathered_[bundle].padded = shard(bundle);
  UnshardedUnits& entry = gathered_[bundle];
  if (entry.work)
    wait_exposed(context_.timeline,
                 fmt::format("{} {}", carrier_->gathers(), shards_.bundles()[bundle].name),
                 std::move(entry.work));
  return entry.padded;
}

Tensor GatheredUnits::get(std::size_t unit) {
  const std::size_t bundle = shards_.bundles().of(unit);
  begin(bundle);
  return shards_.bundles().part(wait(bundle), unit);
}

Tensor GatheredUnits::get_with_lender(std::size_t unit) {
  if (const auto lender = lenders_[unit]) model_.units[*lender]->bind(get(*lender), {});
  return get(unit);
}

void GatheredUnits::free(std::size_t bundle) {
  const FsdpUnit& units = shards_.bundles()[bundle];
  for (std::size_t u = units.first; u <= units.last; ++u) model_.units[u]->bind({}, {});
  if (!parameters_.whole()) gathered_.erase(bundle);
}

void GatheredUnits::refresh() {
  if (!parameters_.whole() || !carrier_) return;
  const bool updated_later = context_.plan.train.offload != Offload::none;
  for (auto& [bundle, entry] : gathered_) {
    if (updated_later)
      old_.insert(bundle);
    else
      gather(bundle, entry);
  }
}

void GatheredUnits::drain() {
  while (!old_.empty()) begin(*old_.begin());
  for (const auto& [bundle, entry] : gathered_) wait(bundle);
}

std::optional<std::size_t> GatheredUnits::lender_bundle(std::size_t unit) const {
  if (!lenders_[unit]) return {};
  const FsdpUnits& bundles = shards_.bundles();
  const std::size_t lender = bundles.of(*lenders_[unit]);
  return lender == bundles.of(unit) ? std::nullopt : std::optional(lender);
}

}  // namespace ringside::peer
