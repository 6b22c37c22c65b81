// The [optimizer] table of an experiment file.
#pragma once

#include <cstdint>
#include <string>

namespace ringside {

struct OptimizerConfig {
  std::string kind = "adamw";
  double lr = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0.0;
  std::string decay = "all";
  double clip_norm = 0;
  std::string schedule = "constant";
  std::int64_t warmup_steps = 0;
  double final_lr_share = 0.1;
  std::int64_t step_every = 1000;
  double step_factor = 0.1;
  std::string lr_scaling = "none";
};

template <class Visitor>
void visit_fields(OptimizerConfig& c, Visitor&& v) {
  v("kind", c.kind, "adamw, lamb or sgd");
  v("lr", c.lr, "peak learning rate");
  v("beta1", c.beta1, "adamw, lamb: decay of the first moment");
  v("beta2", c.beta2, "adamw, lamb: decay of the second moment");
  v("epsilon", c.epsilon, "adamw, lamb: added to the root of the second moment");
  v("momentum", c.momentum, "sgd: momentum");
  v("nesterov", c.nesterov, "sgd: look ahead by the momentum (Nesterov)");
  v("weight_decay", c.weight_decay,
    "decoupled for adamw, part of the update for lamb, added to the gradient for sgd");
  v("decay", c.decay,
    "what weight_decay holds for: all, or matrices (parameters of two or more extents: no biases, "
    "no norms); lamb adapts the rates of these alone");
  v("clip_norm", c.clip_norm, "largest norm of the whole model's gradient; 0: any");
  v("schedule", c.schedule, "constant, linear, cosine or step");
  v("warmup_steps", c.warmup_steps, "steps in which the learning rate rises linearly to lr");
  v("final_lr_share", c.final_lr_share, "linear, cosine: share of lr left at the last step");
  v("step_every", c.step_every, "step: steps after the warm-up from one fall of lr to the next");
  v("step_factor", c.step_factor, "step: what lr is multiplied by then");
  v("lr_scaling", c.lr_scaling,
    "lr times the number of ranks: none, sqrt (its root) or linear; `single` in place of N counts "
    "as N");
}

/// How long and wide a run is.
struct RunSize {
  std::int64_t steps = 1;
  std::int64_t replicas = 1;  // ranks that compute, or that `single` stands for
};

/// lr scaled to as many replicas. Throws Error for an unknown scaling.
double scaled_lr(const OptimizerConfig& config, std::int64_t replicas);

/// Learning rate of a step (counted from 0): with L = scaled_lr(), L (step + 1) / (warmup_steps +
/// 1) while warming up, then by schedule: from L to L final_lr_share at the last step, or L
/// step_factor^k after k times step_every steps. Throws Error for an unknown schedule or scaling.
double learning_rate(const OptimizerConfig& config, std::int64_t step, const RunSize& run);

/// Throws Error for a setting that is unknown or out of range.
void check(const OptimizerConfig& config);

}  // namespace ringside
