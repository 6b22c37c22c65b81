// LAMB: AdamW's direction at a rate of each parameter's own.
#pragma once

#include <memory>

#include "core/optim/optimizer.h"

namespace ringside {

/// You et al., ICLR 2020, algorithm 2, with phi the identity: a parameter p moves by lr |p| / |u|
/// along u = m^ / (sqrt(v^) + epsilon) + decay p; where one of the norms is 0 by lr alone. As
/// NVIDIA's FusedLAMB does by default, parameters that do not decay (biases and norms with decay
/// "matrices"; all without weight_decay) move by lr alone too.
std::unique_ptr<Optimizer> make_lamb(const OptimizerConfig& config, const RunSize& run,
                                     Device& device, const Tensor& parameters, ParameterMap map);

}  // namespace ringside
