// SGD, with momentum or without.
#pragma once

#include <memory>

#include "core/optim/optimizer.h"

namespace ringside {

/// Sutskever et al., ICML 2013, as PyTorch writes it; Nesterov's momentum on request. State: the
/// velocity, fp32; none without momentum.
std::unique_ptr<Optimizer> make_sgd(const OptimizerConfig& config, const RunSize& run,
                                    Device& device, const Tensor& parameters, ParameterMap map);

}  // namespace ringside
