#include "peer/fsdp/unsharded_units.h"

#include <fmt/format.h>

#include <utility>

#include "peer/schemes/exposed.h"

namespace ringside::peer {
UnshardedUnits::UnshardedUnits(const RankContext& context, Model& model, const Shards& shards,
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
    gathered_[b].padded = parameters.fsdp_unit(b);
}

void UnshardedUnits::prepare(std::size_t fsdp_unit) {
  if (!parameters_.host() || gathered_.contains(fsdp_unit) || copied_.contains(fsdp_unit)) return;
  update_(fsdp_unit);
  const Tensor home = parameters_.shard(fsdp_unit);
  const Tensor shard =
      context_.device.tensor(home.shape(), MemoryKind::communication, home.dtype());
  copied_[fsdp_unit] = {shard, parameters_.host()->store(home, shard, nullptr)};
}

Tensor UnshardedUnits::shard(std::size_t fsdp_unit) {
  if (!parameters_.host()) {
    update_(fsdp_unit);
    return parameters_.shard(fsdp_unit);
  }
  prepare(fsdp_unit);
  const Copied copied = std::move(copied_.extract(fsdp_unit).mapped());
  const std::string name = "copy of the shard of " + shards_.fsdp_units()[fsdp_unit].name;
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

void UnshardedUnits::gather(std::size_t fsdp_unit, Entry& entry) {
  const Tensor own = shard(fsdp_unit);
  entry.work = begin_traced(context_.timeline, shards_.fsdp_units()[fsdp_unit].name,
                            [&] { return carrier_->gather(fsdp_unit, own, entry.padded); });
}

void UnshardedUnits::begin(std::size_t fsdp_unit) {
  if (old_.erase(fsdp_unit) > 0) return gather(fsdp_unit, gathered_[fsdp_unit]);
  if (gathered_.contains(fsdp_unit)) return;
  prepare(fsdp_unit);
  if (!carrier_) return;  // the shard is the FSDP unit
  Entry& entry = gathered_[fsdp_unit];
  if (parameters_.shared()) {
    entry.padded = parameters_.fsdp_unit(fsdp_unit);
    const auto others =
        static_cast<std::int64_t>(entry.padded.bytes() - parameters_.shard(fsdp_unit).bytes());
    read_ = read_ + Traffic{others, others, true};
    return;
  }
  entry.padded = context_.device.tensor({shards_.padded_count(fsdp_unit)},
                                        MemoryKind::communication, parameters_.values().dtype());
  gather(fsdp_unit, entry);
}

const Tensor& UnshardedUnits::wait(std::size_t fsdp_unit) {
  if (!carrier_ && (parameters_.whole() || !gathered_.contains(fsdp_unit)))
    gathered_[fsdp_unit].padded = shard(fsdp_unit);
  Entry& entry = gathered_[fsdp_unit];
  if (entry.work) {
    wait_exposed(context_.timeline,
                 fmt::format("{} {}", carrier_->gathers(), shards_.fsdp_units()[fsdp_unit].name),
                 std::move(entry.work));
    carrier_->gathered(fsdp_unit, entry.padded);
  }
  return entry.padded;
}

Tensor UnshardedUnits::get(std::size_t unit) {
  const std::size_t fsdp_unit = shards_.fsdp_units().of(unit);
  begin(fsdp_unit);
  return shards_.fsdp_units().part(wait(fsdp_unit), unit);
}

Tensor UnshardedUnits::get_with_lender(std::size_t unit) {
  if (const auto lender = lenders_[unit]) model_.units[*lender]->bind(get(*lender), {});
  return get(unit);
}

void UnshardedUnits::free(std::size_t fsdp_unit) {
  const FsdpUnit& units = shards_.fsdp_units()[fsdp_unit];
  for (std::size_t u = units.first; u <= units.last; ++u) model_.units[u]->bind({}, {});
  if (!parameters_.whole()) gathered_.erase(fsdp_unit);
}

void UnshardedUnits::refresh() {
  if (!parameters_.whole() || !carrier_) return;
  const bool updated_later = context_.plan.train.offload != Offload::none;
  for (auto& [fsdp_unit, entry] : gathered_) {
    if (updated_later)
      old_.insert(fsdp_unit);
    else
      gather(fsdp_unit, entry);
  }
}

void UnshardedUnits::drain() {
  while (!old_.empty()) begin(*old_.begin());
  for (const auto& [fsdp_unit, entry] : gathered_) wait(fsdp_unit);
}

std::optional<std::size_t> UnshardedUnits::lender_fsdp_unit(std::size_t unit) const {
  if (!lenders_[unit]) return {};
  const FsdpUnits& fsdp_units = shards_.fsdp_units();
  const std::size_t lender = fsdp_units.of(*lenders_[unit]);
  return lender == fsdp_units.of(unit) ? std::nullopt : std::optional(lender);
}

}  // namespace ringside::peer
