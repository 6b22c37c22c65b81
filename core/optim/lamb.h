// LAMB: AdamW's direction, with a learning rate for each parameter.
#pragma once

#include <memory>

#include "core/optim/optimizer.h"

namespace ringside {

/// Algorithm 2 of You et al., ICLR 2020, with the identity as the function phi. An update subtracts
/// lr * (|p| / |u|) * u from a parameter p. Here u = m / (sqrt(v) + epsilon) + weight_decay * p,
/// where m and v are the moments after bias correction. If |p| or |u| is 0, the update subtracts
/// lr * u. As NVIDIA's FusedLAMB does by default, it also subtracts lr * u from parameters without
/// decay: biases and norms if `decay` is "matrices", and all parameters if weight_decay is 0.
std::unique_ptr<Optimizer> make_lamb(const OptimizerConfig& config, const RunSize& run,
                                     Device& device, const Tensor& parameters, ParameterMap map);

}  // namespace ringside
