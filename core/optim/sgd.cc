#include "core/optim/flat_optimizer.h"

#include <utility>

namespace ringside {
namespace {

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
  std::vector<OptimizerState> own_state() const override { return {{"velocity", velocity_}}; }

  Tensor velocity_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerConfig& config, const RunSize& run,
                                    Device& device, const Tensor& parameters, ParameterMap map) {
  return std::make_unique<SgdOptimizer>(config, run, device, parameters, std::move(map));
}

}  // namespace ringside
