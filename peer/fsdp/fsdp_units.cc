#include "peer/fsdp/fsdp_units.h"

namespace ringside::peer {

FsdpUnits::FsdpUnits(const Model& model, std::int64_t least) : model_(model) {
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const Unit& unit = *model.units[u];
    if (bundles_.empty() || bundles_.back().count >= least)
      bundles_.push_back({unit.name(), u, u, model.first_parameter(u), 0});
    FsdpUnit& bundle = bundles_.back();
    bundle.last = u;
    bundle.count += unit.layout().count();
    of_unit_.push_back(bundles_.size() - 1);
  }
  for (FsdpUnit& bundle : bundles_)
    if (bundle.last > bundle.first) bundle.name += " to " + model.units[bundle.last]->name();
}

Tensor FsdpUnits::part(const Tensor& bundle, std::size_t unit) const {
  return bundle.range(model_.first_parameter(unit) - bundles_[of(unit)].begin,
                      model_.units[unit]->layout().count());
}

}  // namespace ringside::peer
