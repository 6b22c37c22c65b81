// LAMB: AdamW's direction, with a learning rate for each parameter.
#pragma once

#include <memory>

#include "core/optim/optimizer.h"

namespace ringside {

/// You et al., ICLR 2020, algorithm 2, with phi the identity. A parameter p moves along u = m^ /
/// (sqrt(v^) + epsilon) + decay p by lr |p| / |u|, or by lr alone if one of the norms is 0. As
/// NVIDIA's FusedLAMB does by default, parameters that do not decay also move by lr alone (biases
/// and norms with decay "matrices"; all parameters without weight_decay).
std::unique_ptr<Optimizer> make_lamb(const OptimizerConfig& config, const RunSize& run,
                                     Device& device, const Tensor& parameters, ParameterMap map);

}  // namespace ringside
