#include "experiments/tools/explain/what_if.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/plan/device_traits.h"
#include "core/plan/mesh.h"
#include "experiments/runner/config/cases.h"
#include "experiments/runner/plan/planner.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::tools::explain {
namespace {

// The same numbers as in experiments/runner/run/predict.cc.
constexpr std::int64_t most_steps = 11, most_warmup = 2;

/// The configuration from which the planner makes `plan`. It has the values that the planner has
/// settled, so that planning again changes nothing.
runner::ExperimentConfig config_of(const RunPlan& plan) {
  runner::ExperimentConfig config;
  config.name = plan.experiment;
  config.model = plan.model;
  config.data = plan.data;
  config.train = plan.train;
  config.optimizer = plan.optimizer;
  config.device = plan.device;
  config.sim = plan.sim;
  if (has_pipeline(plan)) {
    config.mesh = plan.mesh;
    config.mesh.data = 0;  // the trial may have another world
    config.pipeline = plan.pipeline;
    // The trial may have another schedule, with a number of stages of its own.
    if (config.pipeline.schedule != "interleaved") config.pipeline.chunks = 0;
  }
  config.compare.target_kind = TargetKind::none;
  config.scheme_options[std::string(runner::find_scheme(plan.scheme).name)] = plan.options;
  config.cluster = plan.cluster;
  if (config.cluster) {
    // Its efficiencies have these factors already.
    config.device.efficiency = config.device.unfused = 1;
    config.cluster->speeds.clear();
  }
  config.train.evaluate_every = 0;
  config.train.steps = std::min(config.train.steps, most_steps);
  config.train.warmup = std::min({config.train.warmup, most_warmup, config.train.steps - 1});
  config.sim.traced_ranks = 0;
  return config;
}

/// The reason why a run cannot be simulated; empty if it can be.
std::string not_simulated(const RunPlan& plan, const WhatIfSetup& ground) {
  if (plan.program) return "another program ran it, which the simulator does not model";
  if (plan.cluster) return {};
  if (!device_traits(plan.device.kind).on_processor)
    return fmt::format("runs on device '{}' of this machine cannot be simulated", plan.device.kind);
  if (!plan.device.slow.empty() || plan.device.jitter > 0)
    return "the simulator does not model workers that are slowed for a trial (device.slow)";
  if (plan.sums.unknown_order)
    return "the simulator does not model the all-reduce of a library between hosts";
  if (plan.train.offload != Offload::none)
    return "the host of a CPU is the processor that computes, which the simulator does not model";
  if (!ground.machine) return ground.no_machine;
  if (ground.machine->threads != plan.device.threads)
    return fmt::format("this machine is calibrated for ranks with {} thread{}, but these have {}",
                       ground.machine->threads, ground.machine->threads == 1 ? "" : "s",
                       plan.device.threads);
  return {};
}

bool same_change(const Remedy& a, const Remedy& b) {
  return a.settings == b.settings && a.scheme == b.scheme && a.world == b.world;
}

/// Puts the figures of a simulated run into a trial, or the reason why there are none.
bool take(const runner::RunOutcome& outcome, double& step_ms, double& rate, std::string& why_not) {
  if (outcome.interrupted) {
    why_not = "interrupted";
    return false;
  }
  if (outcome.row.status != "ok") {
    why_not = outcome.row.error;
    return false;
  }
  step_ms = outcome.row.step_ms.median;
  rate = outcome.row.samples_per_s;
  return true;
}

}  // namespace

RunPlan what_if_plan(const RunPlan& plan, const Remedy& remedy, const WhatIfSetup& ground) {
  if (const std::string why = not_simulated(plan, ground); !why.empty()) throw Error("{}", why);
  const std::string scheme(remedy.scheme.empty() ? runner::find_scheme(plan.scheme).name
                                                 : remedy.scheme);
  const int world = remedy.world == 0 ? plan.world : remedy.world;
  runner::ExperimentConfig config = config_of(plan);
  if (!plan.cluster) config.calibrated = ground.machine;
  std::vector<runner::Assignment> settings;
  for (const Setting& one : remedy.settings) {
    const std::string text = fmt::format("{}={}", one.key, one.value);
    settings.push_back(runner::parse_assignment(text, text));
  }
  // A list of shares is one of the case's world.
  if (world != plan.world) {
    config.train.shares = Shares::equal;
    config.train.weights.clear();
  }
  config = runner::bind_line(config, settings, {}, plan.listing.label);
  RunPlan out = runner::plan_training(config, scheme, world);
  if (plan.cluster)
    out.sim.numerics = false;
  else
    out = runner::prediction_plan(out, ground.machine->cluster);
  out.id = "trial";
  return out;
}

std::vector<WhatIf> what_ifs_of(const RunPlan& plan, const std::vector<Remedy>& remedies,
                                const WhatIfSetup& ground) {
  std::vector<WhatIf> out;
  std::vector<RunPlan> plans;
  std::vector<std::size_t> of_trial;  // the trial that each plan belongs to, from the second one on
  for (const Remedy& remedy : remedies) {
    WhatIf& trial = out.emplace_back(WhatIf{.remedy = remedy, .why_not = remedy.not_simulated});
    const bool changes = !remedy.settings.empty() || !remedy.scheme.empty() || remedy.world != 0;
    if (!trial.why_not.empty() || !changes || !ground.simulate) continue;
    const auto known = std::find_if(out.begin(), out.end() - 1, [&](const WhatIf& other) {
      return same_change(other.remedy, remedy) && other.why_not.empty();
    });
    if (known != out.end() - 1) continue;  // takes the figures of that one
    try {
      if (plans.empty()) plans.push_back(what_if_plan(plan, {}, ground));
      plans.push_back(what_if_plan(plan, remedy, ground));
      of_trial.push_back(out.size() - 1);
      trial.other_batch = plans.back().train.global_batch != plan.train.global_batch;
    } catch (const std::exception& error) {
      trial.why_not = error.what();
    }
  }
  if (of_trial.empty()) return out;
  const std::vector<runner::RunOutcome> outcomes = ground.simulate(plans, ground.seconds);
  for (std::size_t i = 0; i < of_trial.size(); ++i) {
    WhatIf& trial = out[of_trial[i]];
    if (take(outcomes[0], trial.before_ms, trial.before_rate, trial.why_not) &&
        !take(outcomes[i + 1], trial.after_ms, trial.after_rate, trial.why_not))
      trial.before_rate = 0;
  }
  for (WhatIf& trial : out)
    for (const WhatIf& other : out)
      if (trial.gain() == 0 && other.gain() > 0 && same_change(trial.remedy, other.remedy)) {
        const Remedy remedy = trial.remedy;
        trial = other;
        trial.remedy = remedy;
      }
  return out;
}

}  // namespace ringside::tools::explain
