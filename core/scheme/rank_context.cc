#include "core/scheme/rank_context.h"

namespace ringside {

std::shared_ptr<const InitialValues> initial_values(const RankContext& context) {
  if (context.initial_values) return context.initial_values;
  return drawn_values(static_cast<std::uint64_t>(context.plan.train.seed));
}

}  // namespace ringside
