#include "core/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/exact_sum.h"
#include "core/optim/flat_optimizer.h"
#include "core/optim/lamb.h"

namespace ringside {
namespace {

class AdamWOptimizer final : public FlatOptimizer {
 public:
  AdamWOptimizer(const OptimizerConfig& config, const RunSize& run, Device& device,
                 const Tensor& parameters, ParameterMap map)
      : FlatOptimizer(config, run, device, parameters, std::move(map)),
        first_moment_(zeros(device, parameters)),
        second_moment_(zeros(device, parameters)) {}

  void update(const ParameterRange& whole, const StepInfo& info) override {
    each_alike(whole, info, [&](const ParameterRange& range, const Scalars& with) {
      device().kernels().adamw({.parameters = range.parameters,
                                .gradients = range.gradients,
                                .master = master(range),
                                .first_moment = of(first_moment_, range),
                                .second_moment = of(second_moment_, range),
                                .lr = with.lr,
                                .beta1 = static_cast<float>(config().beta1),
                                .beta2 = static_cast<float>(config().beta2),
                                .epsilon = static_cast<float>(config().epsilon),
                                .weight_decay = with.weight_decay,
                                .gradient_scale = with.gradient_scale,
                                .step = with.step});
    });
  }

 private:
  Tensor first_moment_, second_moment_;
};

class SgdOptimizer final : public FlatOptimizer {
 public:
  SgdOptimizer(const OptimizerConfig& config, const RunSize& run, Device& device,
               const Tensor& parameters, ParameterMap map)
      : FlatOptimizer(config, run, device, parameters, std::move(map)),
        velocity_(config.momentum == 0 ? Tensor{} : zeros(device, parameters)) {}

  void update(const ParameterRange& whole, const StepInfo& info) override {
    each_alike(whole, info, [&](const ParameterRange& range, const Scalars& with) {
      device().kernels().sgd({.parameters = range.parameters,
                              .gradients = range.gradients,
                              .master = master(range),
                              .velocity = of(velocity_, range),
                              .lr = with.lr,
                              .momentum = static_cast<float>(config().momentum),
                              .weight_decay = with.weight_decay,
                              .nesterov = config().nesterov,
                              .gradient_scale = with.gradient_scale,
                              .step = with.step});
    });
  }

 private:
  Tensor velocity_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, const RunSize& run,
                                          Device& device, const Tensor& parameters,
                                          ParameterMap map) {
  check(config);
  if (config.kind == "lamb") return make_lamb(config, run, device, parameters, std::move(map));
  if (config.kind == "sgd")
    return std::make_unique<SgdOptimizer>(config, run, device, parameters, std::move(map));
  return std::make_unique<AdamWOptimizer>(config, run, device, parameters, std::move(map));
}

int rounds_of(const OptimizerConfig& config, DType gradients) {
  const bool norm = config.clip_norm > 0 || gradients == DType::f16;
  return (norm ? 1 : 0) + (config.kind == "lamb" ? 1 : 0);
}

bool overflowed(DType gradients, int round, std::span<const double> totals) {
  return gradients == DType::f16 && round == 0 && !std::isfinite(ExactSum::value(totals, 0));
}

bool settle_rounds(Optimizer& optimizer, const ParameterRange& range, const StepInfo& info,
                   const std::function<void(std::span<double>)>& sum) {
  for (int round = 0; round < optimizer.rounds(); ++round) {
    std::vector<double> sums = optimizer.measure(round, range, info);
    sum(sums);
    if (!optimizer.settle(round, sums, info)) return false;
  }
  return true;
}

}  // namespace ringside
