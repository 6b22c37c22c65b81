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
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    lenders_.push_back(lender_of(model, *model.units[u]));
    if (parameters.whole()) gathered_[u].padded = parameters.unit(u);
  }
}

void GatheredUnits::gather(std::size_t unit, Gathered& entry) {
  entry.work = group_->all_gather(parameters_.shard(unit), entry.padded);
}

void GatheredUnits::begin(std::size_t unit) {
  if (gathered_.contains(unit)) return;
  Gathered& entry = gathered_[unit];
  entry.padded = context_.device.tensor({shards_.padded_count(unit)}, MemoryKind::communication,
                                        parameters_.values().dtype());
  gather(unit, entry);
}

Tensor GatheredUnits::get(std::size_t unit) {
  begin(unit);
  Gathered& entry = gathered_[unit];
  if (entry.work)
    wait_exposed(context_.timeline, "all-gather " + model_.units[unit]->name(),
                 std::move(entry.work));
  return entry.padded.range(0, shards_.count(unit));
}

Tensor GatheredUnits::get_with_lender(std::size_t unit) {
  if (const auto lender = lenders_[unit]) model_.units[*lender]->bind(get(*lender), {});
  return get(unit);
}

void GatheredUnits::free(std::size_t unit) {
  model_.units[unit]->bind({}, {});
  if (!parameters_.whole()) gathered_.erase(unit);
}

void GatheredUnits::refresh() {
  if (!parameters_.whole() || !group_) return;
  for (auto& [unit, entry] : gathered_) gather(unit, entry);
}

void GatheredUnits::drain() {
  for (const auto& [unit, entry] : gathered_)
    if (entry.work) get(unit);
}

}  // namespace ringside::peer
