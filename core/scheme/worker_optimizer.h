// A worker's optimizer, on the device or offloaded, as the plan says.
#pragma once

#include <memory>

#include "core/optim/optimizer.h"
#include "core/scheme/rank_context.h"

namespace ringside {

/// Makes the plan's optimizer for a flat range of parameters: on the rank's device, or on its host
/// (train.offload). With Offload::parameters `parameters` lie in the host's memory. `replicas` is
/// RunSize::replicas. The context's objects outlive the optimizer.
std::unique_ptr<Optimizer> worker_optimizer(const RankContext& context, std::int64_t replicas,
                                            const Tensor& parameters, ParameterMap map);

}  // namespace ringside
