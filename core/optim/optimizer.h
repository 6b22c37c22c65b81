// Optimizers on flat ranges.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/device/device.h"

namespace ringside {

/// The [optimizer] table of an experiment file.
struct OptimizerConfig {
  std::string kind = "adamw";
  double lr = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum = 0.9;
  double weight_decay = 0.0;
  std::string schedule = "constant";
  std::int64_t warmup_steps = 0;
  double final_lr_share = 0.1;
};

template <class Visitor>
void visit_fields(OptimizerConfig& c, Visitor&& v) {
  v("kind", c.kind, "adamw or sgd");
  v("lr", c.lr, "peak learning rate");
  v("beta1", c.beta1, "adamw: decay of the first moment");
  v("beta2", c.beta2, "adamw: decay of the second moment");
  v("epsilon", c.epsilon, "adamw: added to the root of the second moment");
  v("momentum", c.momentum, "sgd: momentum");
  v("weight_decay", c.weight_decay, "decoupled for adamw, added to the gradient for sgd");
  v("schedule", c.schedule, "constant, linear or cosine");
  v("warmup_steps", c.warmup_steps, "steps in which the learning rate rises linearly to lr");
  v("final_lr_share", c.final_lr_share, "linear, cosine: share of lr left at the last step");
}

/// Learning rate of a step (counted from 0) in a run of `steps`: lr (step + 1) / (warmup_steps + 1)
/// while warming up, then by schedule from lr to lr final_lr_share at the last step. Throws Error
/// for an unknown schedule.
double learning_rate(const OptimizerConfig& config, std::int64_t step, std::int64_t steps);

/// Which update this is.
struct StepInfo {
  std::int64_t step = 0;  // from 0
  float loss_scale = 1;   // that the gradients have been multiplied by
};

/// Updates one flat range of parameters, elementwise: the whole model, a unit, a shard or a
/// server's part give the same bits. Owns its state (fp32, kind optimizer): moments, zero at first,
/// and where the parameters are bf16 their master values, which are those of the parameters at
/// first. Safe from the thread that owns it.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Elements [begin, begin + parameters.count()) of the range that this optimizer keeps state
  /// for; gradients have the dtype of the parameters; `step` counts from 0.
  virtual void update(std::int64_t begin, const Tensor& parameters, const Tensor& gradients,
                      std::int64_t step) = 0;
};

/// For a flat range of parameters with its initial values. `steps` is the length of the run, which
/// the schedule needs. Throws Error for an unknown kind or schedule, or a setting out of range.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, std::int64_t steps,
                                          Device& device, const Tensor& parameters);

}  // namespace ringside
