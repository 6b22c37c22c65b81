#include "core/scheme/replica.h"

#include <algorithm>

namespace ringside {

Replica::Replica(Model& model, const RankContext& context)
    : model_(model),
      context_(context),
      parameters_(context.device.tensor({model.parameter_count()}, MemoryKind::parameter,
                                        parameter_dtype(context.plan.train))),
      gradients_(context.device.tensor({model.parameter_count()}, MemoryKind::gradient,
                                       parameters_.dtype())) {
  const auto initial = initial_values(context);
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    initial->write(*model.units[u], model.first_parameter(u), 0, parameters(u));
    model.units[u]->bind(parameters(u), {});
  }
}

Tensor Replica::range(const Tensor& all, std::size_t unit) const {
  return all.range(model_.first_parameter(unit), model_.units[unit]->layout().count());
}

void Replica::before_backward(std::size_t unit, const Pass& pass) {
  Tensor target = gradients(unit);
  if (pass.micro_batch == 0) {
    if (const auto lender = model_.lender_of(unit))
      model_.units[*lender]->bind(parameters(*lender), gradients(*lender));
  } else {
    if (!scratch_) {
      std::int64_t largest = 0;
      for (const auto& u : model_.units) largest = std::max(largest, u->layout().count());
      scratch_ = context_.device.tensor({largest}, MemoryKind::gradient, gradients_.dtype());
    }
    target = scratch_.range(0, target.count());
  }
  model_.units[unit]->bind(parameters(unit), target);
}

void Replica::after_backward(std::size_t unit, const Pass& pass) {
  const Tensor sum = gradients(unit);
  if (pass.micro_batch > 0) {
    const auto span =
        context_.timeline.scope(Activity::compute, "add up " + model_.units[unit]->name());
    context_.device.kernels().add({.in = scratch_.range(0, sum.count()), .out = sum});
  }
  model_.units[unit]->bind(parameters(unit), {});
}

}  // namespace ringside
