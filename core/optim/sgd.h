// SGD, with or without momentum.
#pragma once

#include <memory>

#include "core/optim/optimizer.h"

namespace ringside {

/// Sutskever et al., ICML 2013, in PyTorch's form, with Nesterov's momentum if asked for. State:
/// the velocity, fp32; without momentum no state.
std::unique_ptr<Optimizer> make_sgd(const OptimizerConfig& config, const RunSize& run,
                                    Device& device, const Tensor& parameters, ParameterMap map);

}  // namespace ringside
