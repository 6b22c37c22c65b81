#include "peer/fsdp/fsdp_units.h"

namespace ringside::peer {

FsdpUnits::FsdpUnits(const Model& model, std::int64_t least) : model_(model) {
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const Unit& unit = *model.units[u];
    if (model.divides_gradients(u) || fsdp_units_.back().count >= least)
      fsdp_units_.push_back({unit.name(), u, u, model.first_parameter(u), 0});
    FsdpUnit& fsdp_unit = fsdp_units_.back();
    fsdp_unit.last = u;
    fsdp_unit.count += unit.layout().count();
    of_unit_.push_back(fsdp_units_.size() - 1);
  }
  for (FsdpUnit& fsdp_unit : fsdp_units_)
    if (fsdp_unit.last > fsdp_unit.first)
      fsdp_unit.name += " to " + model.units[fsdp_unit.last]->name();
}

Tensor FsdpUnits::part(const Tensor& fsdp_unit, std::size_t unit) const {
  return fsdp_unit.range(model_.first_parameter(unit) - fsdp_units_[of(unit)].begin,
                         model_.units[unit]->layout().count());
}

}  // namespace ringside::peer
