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
                             const Tensor& own, Communicator& communicator)
    : context_(context), model_(model), shards_(shards), own_(own), communicator_(communicator) {
  for (const auto& unit : model.units) lenders_.push_back(lender_of(model, *unit));
}

void GatheredUnits::begin(std::size_t unit) {
  if (gathered_.contains(unit)) return;
  Gathered& entry = gathered_[unit];
  entry.padded =
      context_.device.tensor({shards_.padded_count(unit)}, MemoryKind::communication, own_.dtype());
  entry.work = communicator_.all_gather(shards_.of_own(own_, unit), entry.padded);
}

Tensor GatheredUnits::get(std::size_t unit) {
  begin(unit);
  Gathered& entry = gathered_[unit];
  if (entry.work)
    wait_exposed(context_.timeline, "all-gather " + model_.units[unit]->name(),
                 std::move(entry.work));
  return entry.padded.range(0, model_.units[unit]->layout().count());
}

Tensor GatheredUnits::get_with_lender(std::size_t unit) {
  if (const auto lender = lenders_[unit]) model_.units[*lender]->bind(get(*lender), {});
  return get(unit);
}

void GatheredUnits::free(std::size_t unit) {
  model_.units[unit]->bind({}, {});
  gathered_.erase(unit);
}

}  // namespace ringside::peer
