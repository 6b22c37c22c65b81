#include "core/scheme/state.h"

#include <algorithm>
#include <span>

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

void visit_number(Device& device, StateRange like, std::uint32_t& number, std::int64_t times,
                  const StateVisitor& visit) {
  constexpr std::uint32_t half = 1 << 16;
  std::vector<float> halves;
  for (std::int64_t t = 0; t < times; ++t) {
    halves.push_back(static_cast<float>(number % half));
    halves.push_back(static_cast<float>(number / half));
  }
  like.values = device.tensor({2 * times}, MemoryKind::workspace);
  like.device = &device;
  like.of_elements = false;
  device.write(like.values, std::as_bytes(std::span(halves)));
  visit(like);
  device.read(like.values, std::as_writable_bytes(std::span(halves)));
  number = static_cast<std::uint32_t>(halves[0]) + half * static_cast<std::uint32_t>(halves[1]);
}

}  // namespace ringside
