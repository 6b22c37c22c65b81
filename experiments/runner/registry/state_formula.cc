#include "experiments/runner/registry/state_formula.h"

#include "core/optim/optimizers.h"
#include "core/plan/mesh.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::runner {

std::optional<StateBytes> state_formula(const RunPlan& plan, std::int64_t parameters) {
  const SchemeInfo& scheme = find_scheme(plan.scheme);
  if (has_pipeline(plan) || !scheme.divides || plan.train.offload != Offload::none ||
      converts_gradients(plan.train))
    return {};
  const StateDivision among = scheme.divides(plan.options, plan.world);
  const auto count = static_cast<double>(parameters);
  const auto element = static_cast<double>(size_of(parameter_dtype(plan.train)));
  constexpr double fp32 = 4;
  const double kept = values_of_each(plan.optimizer) + (element < fp32 ? 1 : 0);
  return StateBytes{.parameters = element * count / among.parameters(),
                    .gradients = element * count / among.gradients(),
                    .optimizer = fp32 * kept * count / among.optimizer()};
}

}  // namespace ringside::runner
