#include "core/train/skipped_step.h"

#include <cmath>
#include <limits>

namespace ringside {

void SkippedStep::begin_step() {
  const auto copy = [this](const Tensor& from) {
    const Tensor to = device_.tensor(from.shape(), MemoryKind::workspace, from.dtype());
    device_.kernels().copy({.in = from, .out = to});
    return to;
  };
  kept_.clear();
  for (const auto& unit : model_.units)
    for (const Unit::Statistic& statistic : unit->statistics()) {
      std::vector<Tensor>& kept = kept_.emplace_back();
      kept.push_back(copy(statistic.values));
      for (const Tensor& later : statistic.later) kept.push_back(copy(later));
    }
}

void SkippedStep::put_back() {
  std::size_t next = 0;
  for (const auto& unit : model_.units)
    for (std::size_t s = 0; s < unit->statistics().size(); ++s) {
      Unit::Statistic& statistic = unit->statistic(s);
      const std::vector<Tensor>& kept = kept_[next++];
      statistic.later.resize(kept.size() - 1);  // those of later micro-batches are made when needed
      for (std::size_t m = 0; m < kept.size(); ++m)
        device_.kernels().copy(
            {.in = kept[m], .out = m == 0 ? statistic.values : statistic.later[m - 1]});
    }
}

void spoil_gradient(Device& device, const std::vector<Loss>& losses) {
  if (!device.has_values()) return;
  for (const Loss& part : losses)
    if (!std::isfinite(value_of(device, part).loss))
      device.kernels().fill(
          {.out = losses[0].gradient, .value = std::numeric_limits<float>::quiet_NaN()});
}

}  // namespace ringside
