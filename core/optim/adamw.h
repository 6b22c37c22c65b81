// AdamW: Adam with decoupled weight decay.
#pragma once

#include <memory>

#include "core/optim/optimizer.h"

namespace ringside {

/// Algorithm 2 of Loshchilov and Hutter, ICLR 2019. The optimizer's state is two moments in fp32.
std::unique_ptr<Optimizer> make_adamw(const OptimizerConfig& config, const RunSize& run,
                                      Device& device, const Tensor& parameters, ParameterMap map);

}  // namespace ringside
