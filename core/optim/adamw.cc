#include "core/optim/flat_optimizer.h"

#include <utility>

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
  std::vector<OptimizerState> own_state() const override {
    return {{"first_moment", first_moment_}, {"second_moment", second_moment_}};
  }

  Tensor first_moment_, second_moment_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(const OptimizerConfig& config, const RunSize& run,
                                      Device& device, const Tensor& parameters, ParameterMap map) {
  return std::make_unique<AdamWOptimizer>(config, run, device, parameters, std::move(map));
}

}  // namespace ringside
