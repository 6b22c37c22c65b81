// All optimizers, by name.
#pragma once

#include <memory>

#include "core/optim/optimizer.h"

namespace ringside {

/// Throws Error for a kind that is unknown or a setting that is out of range.
void check(const OptimizerConfig& config);

/// The number of fp32 values that the optimizer keeps of each parameter, without its master value:
/// AdamW two. Throws Error for an unknown kind.
int values_of_each(const OptimizerConfig& config);

/// Makes the optimizer that the configuration names. `parameters` is its flat range. Its values are
/// read if they are of 16 bits: then they must be the initial ones, of which the optimizer makes
/// its master values. Throws Error as check() does.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, const RunSize& run,
                                          Device& device, const Tensor& parameters,
                                          ParameterMap map);

}  // namespace ringside
