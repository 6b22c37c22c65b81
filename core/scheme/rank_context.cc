#include "core/scheme/rank_context.h"

#include "core/scheme/pipeline_group.h"

namespace ringside {

std::unique_ptr<Communicator> RankContext::communicator(const Group& group) const {
  if (!pipeline) return links.communicator(*this, group);
  Group own = group;
  own.name += fmt::format("-pipeline-{}", pipeline->rank());
  return links.communicator(*this, own);
}

std::shared_ptr<const InitialValues> initial_values(const RankContext& context) {
  if (context.initial_values) return context.initial_values;
  return drawn_values(static_cast<std::uint64_t>(context.plan.train.seed));
}

}  // namespace ringside
