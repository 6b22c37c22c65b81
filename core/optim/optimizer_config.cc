#include "core/optim/optimizer_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "core/base/error.h"

namespace ringside {
namespace {

/// A position in the schedule after the warm-up.
struct After {
  std::int64_t steps;  // number of steps since the warm-up
  double progress;     // 0 at the first step after the warm-up, 1 at the last step of the run
};

/// The factor by which the schedule multiplies the learning rate.
double share(const OptimizerConfig& config, const After& after) {
  const double last = config.final_lr_share;
  switch (config.schedule) {
    case Schedule::constant:
      return 1;
    case Schedule::linear:
      return 1 + (last - 1) * after.progress;
    case Schedule::cosine:
      return last + (1 - last) * 0.5 * (1 + std::cos(std::numbers::pi * after.progress));
    case Schedule::step:
      return std::pow(config.step_factor, static_cast<double>(after.steps / config.step_every));
  }
  return 1;
}

double factor(LrScaling scaling, double replicas) {
  if (scaling == LrScaling::none) return 1;
  return scaling == LrScaling::sqrt ? std::sqrt(replicas) : replicas;
}

constexpr std::int64_t most_warmup_steps = 1'000'000'000'000;

}  // namespace

Fields fields_of(OptimizerConfig& config) {
  return {{"kind", &config.kind, "adamw, lamb or sgd; see `ringside list optimizers`"},
          {"lr", &config.lr, "peak learning rate", Range::not_negative},
          {"beta1", &config.beta1, "adamw, lamb: decay of the first moment", Range::not_negative},
          {"beta2", &config.beta2, "adamw, lamb: decay of the second moment", Range::not_negative},
          {"epsilon", &config.epsilon, "adamw, lamb: added to the root of the second moment",
           Range::positive},
          {"momentum", &config.momentum, "sgd: momentum", Range::not_negative},
          {"nesterov", &config.nesterov, "sgd: whether the momentum is Nesterov's"},
          {"weight_decay", &config.weight_decay,
           "decoupled for adamw, part of the update for lamb, added to the gradient for sgd",
           Range::not_negative},
          {"decay", &config.decay,
           "parameters that weight_decay applies to: all, or matrices (parameters of two or more "
           "dimensions, which biases and norms are not); lamb adapts the learning rate of these "
           "parameters only"},
          {"clip_norm", &config.clip_norm,
           "largest norm of the whole model's gradient; 0: no limit", Range::not_negative},
          {"schedule", &config.schedule, "constant, linear, cosine or step"},
          {"warmup_steps", &config.warmup_steps,
           "steps in which the learning rate rises linearly to lr", Range::not_negative},
          {"final_lr_share", &config.final_lr_share,
           "linear, cosine: share of lr left at the last step", Range::not_negative},
          {"step_every", &config.step_every,
           "step: after the warm-up, lr is reduced once in this number of steps", Range::positive},
          {"step_factor", &config.step_factor, "step: factor by which each reduction multiplies lr",
           Range::not_negative},
          {"lr_scaling", &config.lr_scaling,
           "factor of lr in a run of N ranks: none (1), sqrt (the root of N) or linear (N); with "
           "the scheme `single`, N is scheme.single.replicas"}};
}

double scaled_lr(const OptimizerConfig& config, std::int64_t replicas) {
  return config.lr * factor(config.lr_scaling, static_cast<double>(replicas));
}

double learning_rate(const OptimizerConfig& config, std::int64_t step, const RunSize& run) {
  const double lr = scaled_lr(config, run.replicas);
  const auto warmup = config.warmup_steps;
  if (step < warmup) return lr * static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
  const auto way = static_cast<double>(std::max<std::int64_t>(1, run.steps - 1 - warmup));
  const double progress = std::min(1.0, static_cast<double>(step - warmup) / way);
  return lr * share(config, {step - warmup, progress});
}

void check_settings(const OptimizerConfig& c) {
  const auto need = [](bool ok, std::string_view name, auto value, std::string_view rule) {
    if (!ok) throw Error("optimizer.{} = {} is out of range; it has to be {}", name, value, rule);
  };
  // Kernels get these values as fp32, where a double may become infinite, 0 or 1.
  const auto in_fp32 = [](double value) { return static_cast<float>(value); };
  const auto not_negative = [&](double value) {
    return value >= 0 && std::isfinite(in_fp32(value));
  };
  const auto below_1 = [&](double value) { return value >= 0 && in_fp32(value) < 1; };
  const std::string_view below_1_rule = "0 or more, and below 1 even after rounding to fp32";
  need(not_negative(c.lr), "lr", c.lr, "0 or more, and finite in fp32");
  need(below_1(c.beta1), "beta1", c.beta1, below_1_rule);
  need(below_1(c.beta2), "beta2", c.beta2, below_1_rule);
  need(in_fp32(c.epsilon) > 0 && not_negative(c.epsilon), "epsilon", c.epsilon,
       "above 0 and finite, even after rounding to fp32");
  need(below_1(c.momentum), "momentum", c.momentum, below_1_rule);
  need(not_negative(c.weight_decay), "weight_decay", c.weight_decay,
       "0 or more, and finite in fp32");
  need(not_negative(c.clip_norm), "clip_norm", c.clip_norm, "0 or more, and finite in fp32");
  need(c.warmup_steps >= 0 && c.warmup_steps <= most_warmup_steps, "warmup_steps", c.warmup_steps,
       "from 0 to 10^12");
  need(c.final_lr_share >= 0 && c.final_lr_share <= 1, "final_lr_share", c.final_lr_share,
       "in [0, 1]");
  need(c.step_every >= 1, "step_every", c.step_every, "1 or more");
  need(c.step_factor > 0 && c.step_factor <= 1, "step_factor", c.step_factor, "in (0, 1]");
  if (c.nesterov && (c.kind != "sgd" || c.momentum == 0))
    throw Error("optimizer.nesterov = true needs kind \"sgd\" and a momentum above 0");
}

}  // namespace ringside
