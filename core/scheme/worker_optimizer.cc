#include "core/scheme/worker_optimizer.h"

#include <utility>

#include "core/base/error.h"
#include "core/optim/optimizers.h"
#include "core/scheme/offloaded.h"

namespace ringside {

std::unique_ptr<Optimizer> worker_optimizer(const RankContext& context, std::int64_t replicas,
                                            const Tensor& parameters, ParameterMap map) {
  const RunPlan& plan = context.plan;
  const OffloadedOptimizer::Make make = [&](Device& device, const Tensor& own) {
    return make_optimizer(plan.optimizer,
                          {plan.train.steps, replicas, has_fp16_gradients(plan.train)}, device, own,
                          std::move(map));
  };
  const Offload offload = plan.train.offload;
  if (offload == Offload::none) return make(context.device, parameters);
  if (!context.host)
    throw Error("rank {}: train.offload = '{}', but the rank has been given no host side",
                context.rank, name_of(offload));
  return std::make_unique<OffloadedOptimizer>(*context.host, context.timeline, parameters,
                                              sum_dtype(plan.train), offload == Offload::parameters,
                                              make);
}

}  // namespace ringside
