#include "core/scheme/state.h"

#include <algorithm>

namespace ringside {

void visit_optimizer(const RankContext& context, const Optimizer& optimizer,
                     const std::vector<OwnStretch>& stretches, const StateRange& like,
                     const StateVisitor& visit) {
  const Offload offload = context.plan.train.offload;
  Device& host = offload == Offload::none ? context.device : context.host->device();
  visit_optimizer(optimizer, stretches, like,
                  offload == Offload::parameters ? host : context.device, host, visit);
}

void visit_optimizer(const Optimizer& optimizer, const std::vector<OwnStretch>& stretches,
                     const StateRange& like, Device& of_parameters, Device& of_state,
                     const StateVisitor& visit) {
  const auto show = [&](std::string_view name, const OwnStretch& stretch, const Tensor& values,
                        Device& device) {
    StateRange range = like;
    range.name = name;
    range.begin = stretch.model;
    range.values = values;
    range.device = &device;
    visit(range);
  };
  const std::vector<OptimizerState> all = optimizer.state();
  const bool has_masters =
      std::ranges::any_of(all, [](const OptimizerState& one) { return one.name == master_values; });
  for (const OwnStretch& stretch : stretches) {
    if (!has_masters) show(state_parameters, stretch, stretch.parameters, of_parameters);
    for (const OptimizerState& state : all)
      show(state.name == master_values ? state_parameters : state.name, stretch,
           state.values.range(stretch.own, stretch.parameters.count()), of_state);
  }
}

}  // namespace ringside
