// The [optimizer] table of an experiment file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/fields.h"

namespace ringside {

/// The parameters to which weight_decay applies.
enum class Decay : std::uint8_t { all, matrices };
inline constexpr std::string_view decay_names[] = {"all", "matrices"};
constexpr EnumNames names_of(Decay) { return decay_names; }

/// The schedule of the learning rate after its warm-up.
enum class Schedule : std::uint8_t { constant, linear, cosine, step };
inline constexpr std::string_view schedule_names[] = {"constant", "linear", "cosine", "step"};
constexpr EnumNames names_of(Schedule) { return schedule_names; }

/// The growth of the learning rate with the number of replicas.
enum class LrScaling : std::uint8_t { none, sqrt, linear };
inline constexpr std::string_view lr_scaling_names[] = {"none", "sqrt", "linear"};
constexpr EnumNames names_of(LrScaling) { return lr_scaling_names; }

struct OptimizerConfig {
  std::string kind = "adamw";
  double lr = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0.0;
  Decay decay = Decay::all;
  double clip_norm = 0;
  Schedule schedule = Schedule::constant;
  std::int64_t warmup_steps = 0;
  double final_lr_share = 0.1;
  std::int64_t step_every = 1000;
  double step_factor = 0.1;
  LrScaling lr_scaling = LrScaling::none;
  bool operator==(const OptimizerConfig&) const = default;
};

Fields fields_of(OptimizerConfig& config);

/// The number of steps and replicas of a run.
struct RunSize {
  std::int64_t steps = 1;
  /// Ranks that compute. In the scheme `single` one rank does the work of several: then this is how
  /// many ranks it stands for.
  std::int64_t replicas = 1;
  /// Whether a step whose gradients are not finite is skipped (skips_steps() of
  /// core/plan/train_config.h). (With fp16 parameters it always is.)
  bool skips = false;
};

/// Returns the learning rate scaled to this number of replicas.
double scaled_lr(const OptimizerConfig& config, std::int64_t replicas);

/// Returns the learning rate of a step (counted from 0). Let L = scaled_lr(). During the warm-up
/// the learning rate is L * (step + 1) / (warmup_steps + 1). Afterwards the schedule decides:
/// `constant` keeps L, `linear` and `cosine` go from L down to L * final_lr_share at the last step,
/// and `step` multiplies L by step_factor after every step_every steps since the warm-up.
double learning_rate(const OptimizerConfig& config, std::int64_t step, const RunSize& run);

/// Throws Error for a setting that is out of range. Does not check whether `kind` is known; that is
/// done in core/optim/optimizers.h.
void check_settings(const OptimizerConfig& config);

}  // namespace ringside
