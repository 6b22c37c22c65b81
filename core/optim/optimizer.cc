#include "core/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/num/exact_sum.h"
#include "core/optim/optimizers.h"

namespace ringside {

int rounds_of(const OptimizerConfig& config, bool skips) {
  const bool norm = config.clip_norm > 0 || skips;
  return (norm ? 1 : 0) + find_optimizer(config.kind).rounds;
}

double clip_factor(const OptimizerConfig& config, std::span<const double> totals,
                   double loss_scale) {
  if (!(config.clip_norm > 0)) return 1;
  const double norm = std::sqrt(ExactSum::value(totals, 0)) / loss_scale;
  return std::min(1.0, config.clip_norm / (norm + 1e-6));
}

bool leaves_gradients(const OptimizerConfig& config, std::span<const double> totals,
                      double loss_scale) {
  return std::isfinite(ExactSum::value(totals, 0)) && clip_factor(config, totals, loss_scale) == 1;
}

bool overflowed(bool skips, int round, std::span<const double> totals) {
  return skips && round == 0 && !std::isfinite(ExactSum::value(totals, 0));
}

bool settle_rounds(Optimizer& optimizer, std::span<const ParameterRange> ranges,
                   const StepInfo& info, const std::function<void(std::span<double>)>& sum) {
  for (int round = 0; round < optimizer.rounds(); ++round) {
    std::vector<double> sums(optimizer.sums(round));
    for (const ParameterRange& range : ranges) {
      const std::vector<double> part = optimizer.measure(round, range, info);
      std::transform(part.begin(), part.end(), sums.begin(), sums.begin(), std::plus<>());
    }
    sum(sums);
    if (!optimizer.settle(round, sums, info)) return false;
  }
  return true;
}

}  // namespace ringside
