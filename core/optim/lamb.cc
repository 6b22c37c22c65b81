#include "core/optim/flat_optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/num/exact_sum.h"

namespace ringside {
namespace {

/// LAMB has one round of sums of its own. These sums are |p|^2 and |u|^2 for every parameter p, in
/// the model's order, where u is the direction of the update of p (see LambMoments).
class LambOptimizer final : public FlatOptimizer {
 public:
  LambOptimizer(const OptimizerConfig& config, const RunSize& run, Device& device,
                const Tensor& parameters, ParameterMap map)
      : FlatOptimizer(config, run, device, parameters, std::move(map)),
        first_moment_(zeros(device, parameters)),
        second_moment_(zeros(device, parameters)),
        ratios_(this->map().parameters, 1.0) {}

  void update(const ParameterRange& range, const StepInfo& info) override {
    for (const Stretch& stretch : stretches_in(range)) {
      const ParameterRange own = part(range, stretch);
      const Scalars with = scalars(info, decay_of(stretch));
      const double ratio = with.weight_decay == 0 ? 1 : ratios_[stretch.parameter];
      device().kernels().lamb_update(
          {.parameters = own.parameters,
           .master = master(own),
           .first_moment = of(first_moment_, own),
           .second_moment = of(second_moment_, own),
           .rate = static_cast<float>(static_cast<double>(with.lr) * ratio),
           .beta1 = static_cast<float>(config().beta1),
           .beta2 = static_cast<float>(config().beta2),
           .epsilon = static_cast<float>(config().epsilon),
           .weight_decay = with.weight_decay,
           .step = with.step});
    }
  }

 private:
  std::vector<OptimizerState> own_state() const override {
    return {{"first_moment", first_moment_}, {"second_moment", second_moment_}};
  }
  int own_rounds() const override { return 1; }
  std::size_t own_sums() const override { return 2 * map().parameters; }

  /// Also updates the moments, so each element must be measured only once a step.
  std::vector<double> measure_own(const ParameterRange& range, const StepInfo& info) override {
    const std::vector<Stretch> stretches = stretches_in(range);
    std::vector<double> sums(ExactSum::digits * own_sums());
    if (stretches.empty()) return sums;
    const auto count = static_cast<std::int64_t>(stretches.size());
    constexpr auto digits = static_cast<std::int64_t>(ExactSum::digits);
    const Tensor squares = device().tensor({2 * count, digits}, MemoryKind::workspace, DType::f64);
    for (std::int64_t i = 0; i < count; ++i) {
      const Stretch& stretch = stretches[static_cast<std::size_t>(i)];
      const ParameterRange own = part(range, stretch);
      const Scalars with = scalars(info, decay_of(stretch));
      device().kernels().lamb_moments({.parameters = own.parameters,
                                       .gradients = own.gradients,
                                       .master = master(own),
                                       .first_moment = of(first_moment_, own),
                                       .second_moment = of(second_moment_, own),
                                       .beta1 = static_cast<float>(config().beta1),
                                       .beta2 = static_cast<float>(config().beta2),
                                       .epsilon = static_cast<float>(config().epsilon),
                                       .weight_decay = with.weight_decay,
                                       .gradient_scale = with.gradient_scale,
                                       .step = with.step,
                                       .squares = squares.range(2 * digits * i, 2 * digits)});
    }
    constexpr std::size_t both = 2 * ExactSum::digits;
    std::vector<double> values(both * stretches.size());
    device().read(squares, std::as_writable_bytes(std::span(values)));
    for (std::size_t i = 0; i < values.size(); ++i)
      sums[both * stretches[i / both].parameter + i % both] += values[i];
    return sums;
  }

  void settle_own(std::span<const double> totals) override {
    for (std::size_t i = 0; i < ratios_.size(); ++i) {
      const double parameters = std::sqrt(ExactSum::value(totals, 2 * i));
      const double directions = std::sqrt(ExactSum::value(totals, 2 * i + 1));
      ratios_[i] = parameters > 0 && directions > 0 ? parameters / directions : 1;
    }
  }

  Tensor first_moment_, second_moment_;
  std::vector<double> ratios_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lamb(const OptimizerConfig& config, const RunSize& run,
                                     Device& device, const Tensor& parameters, ParameterMap map) {
  return std::make_unique<LambOptimizer>(config, run, device, parameters, std::move(map));
}

}  // namespace ringside
