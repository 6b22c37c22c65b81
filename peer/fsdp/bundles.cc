#include "peer/fsdp/bundles.h"

namespace ringside::peer {

Bundles::Bundles(const Model& model, std::int64_t least) : model_(model) {
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const Unit& unit = *model.units[u];
    if (bundles_.empty() || bundles_.back().count >= least)
      bundles_.push_back({unit.name(), u, u, model.first_parameter(u), 0});
    Bundle& bundle = bundles_.back();
    bundle.last = u;
    bundle.count += unit.layout().count();
    of_unit_.push_back(bundles_.size() - 1);
  }
  for (Bundle& bundle : bundles_)
    if (bundle.last > bundle.first) bundle.name += " to " + model.units[bundle.last]->name();
}

Tensor Bundles::part(const Tensor& bundle, std::size_t unit) const {
  return bundle.range(model_.first_parameter(unit) - bundles_[of(unit)].begin,
                      model_.units[unit]->layout().count());
}

}  // namespace ringside::peer
