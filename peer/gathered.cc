#include "peer/gathered.h"

#include <utility>

#include "peer/exposed.h"

namespace ringside::peer {
namespace {

std::optional<std::size_t> lender_of(const Model& model, const Unit& unit) {
  for (std::size_t u = 0; u < model.units.size(); ++u)
    if (model.units[u].get() == unit.lender()) return u;
  return {};
}

}  // namespace

GatheredUnits::GatheredUnits(const RankContext& context, Model& model, const Shards& shards,
                             const Kept& parameters, Communicator* group)
    : context_(context), model_(model), shards_(shards), parameters_(parameters), group_(group) {
  for (const auto& unit : model.units) lenders_.push_back(lender_of(model, *unit));
  for (std::size_t b = 0; parameters.whole() && b < shards.size(); ++b)
    gathered_[b].padded = parameters.bundle(b);
}

void GatheredUnits::gather(std::size_t bundle, Gathered& entry) {
  group_->name_next(shards_.bundles()[bundle].name);
  entry.work = group_->all_gather(parameters_.shard(bundle), entry.padded);
}

void GatheredUnits::begin(std::size_t bundle) {
  if (gathered_.contains(bundle)) return;
  Gathered& entry = gathered_[bundle];
  entry.padded = context_.device.tensor({shards_.padded_count(bundle)}, MemoryKind::communication,
                                        parameters_.values().dtype());
  gather(bundle, entry);
}

const Tensor& GatheredUnits::wait(std::size_t bundle) {
  Gathered& entry = gathered_[bundle];
  if (entry.work)
    wait_exposed(context_.timeline, "all-gather " + shards_.bundles()[bundle].name,
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
  const Bundle& units = shards_.bundles()[bundle];
  for (std::size_t u = units.first; u <= units.last; ++u) model_.units[u]->bind({}, {});
  if (!parameters_.whole()) gathered_.erase(bundle);
}

void GatheredUnits::refresh() {
  if (!parameters_.whole() || !group_) return;
  for (auto& [bundle, entry] : gathered_) gather(bundle, entry);
}

void GatheredUnits::drain() {
  for (const auto& [bundle, entry] : gathered_) wait(bundle);
}

std::optional<std::size_t> GatheredUnits::lender_bundle(std::size_t unit) const {
  if (!lenders_[unit]) return {};
  const Bundles& bundles = shards_.bundles();
  const std::size_t lender = bundles.of(*lenders_[unit]);
  return lender == bundles.of(unit) ? std::nullopt : std::optional(lender);
}

}  // namespace ringside::peer
