// All optimizers, by name.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "core/optim/optimizer.h"

namespace ringside {

/// A kind of optimizer.
struct OptimizerInfo {
  std::string_view name;  // optimizer.kind
  std::string_view summary;
  /// Makes one for a flat range. `parameters` is that range. Its values are read if they are of 16
  /// bits: then they must be the initial ones, of which the optimizer makes its master values.
  std::unique_ptr<Optimizer> (*make)(const OptimizerConfig& config, const RunSize& run,
                                     Device& device, const Tensor& parameters,
                                     ParameterMap map) = nullptr;
  /// The number of fp32 values that it keeps of each parameter, without its master value.
  int (*values)(const OptimizerConfig&) = nullptr;
  /// The rounds of sums (Optimizer::rounds()) after the one in which gradients are clipped.
  int rounds = 0;
};

const std::vector<OptimizerInfo>& optimizers();
/// Adds an optimizer of a plug-in. Throws Error as RowList::add() does.
void add_optimizer(OptimizerInfo row);
/// Throws Error that tells the most similar name and all names if there is none.
const OptimizerInfo& find_optimizer(std::string_view kind);

/// Throws Error for a kind that is unknown or a setting that is out of range.
void check(const OptimizerConfig& config);

/// OptimizerInfo::values of the configuration: AdamW two. Throws Error for an unknown kind.
int values_of_each(const OptimizerConfig& config);

/// Makes the optimizer that the configuration names, as OptimizerInfo::make says. Throws Error as
/// check() does.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, const RunSize& run,
                                          Device& device, const Tensor& parameters,
                                          ParameterMap map);

}  // namespace ringside
