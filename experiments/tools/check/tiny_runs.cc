#include "experiments/tools/check/tiny_runs.h"

#include <utility>

#include "core/plan/definition.h"
#include "core/plan/faults.h"
#include "core/plan/same_run.h"
#include "core/scheme/single.h"
#include "core/sim/world.h"
#include "experiments/runner/plan/planner.h"
#include "experiments/runner/plan/references.h"
#include "experiments/runner/run/rank.h"
#include "experiments/runner/run/simulation.h"
#include "experiments/tools/check/small_cluster.h"

namespace ringside::tools::check {

using runner::ExperimentConfig;

std::string TriedScheme::name() const {
  return tried ? fmt::format("{}_{}", info->name, tried->name) : std::string(info->name);
}

ExperimentConfig tiny(const std::string& model, const std::string& text) {
  ExperimentConfig config;
  config.name = "conformance";
  config.model = {.kind = model, .layers = 2, .heads = 2, .width = 24, .context = 8};
  config.data.path = {text};
  config.train.steps = 5;
  config.train.warmup = 1;
  config.train.global_batch = 24;
  config.train.timeout_s = 60;
  config.optimizer.lr = 1e-2;
  config.optimizer.weight_decay = 0.1;
  return config;
}

ExperimentConfig tiny_resnet(const std::string& text) {
  auto config = tiny("resnet", text);
  config.model.layers = 10;
  config.model.filters = 3;
  config.model.image = 9;
  config.model.classes = 4;
  config.data.kind = "synthetic-images";
  config.data.path.clear();
  return config;
}

bool can_simulate() {
  try {
    sim::require_simgrid();
    return true;
  } catch (const Error&) {
    return false;
  }
}

ExperimentConfig simulated(ExperimentConfig config, int devices) {
  config.device.kind = "sim";
  config.cluster = small_cluster(devices);
  config.sim.numerics = true;
  return config;
}

RunRecord run(const RunPlan& plan, const SchemeInfo* scheme) {
  return make_row(plan, plan.cluster ? runner::simulate(
                                           plan, [](const Progress&) {}, scheme)
                                     : runner::run_ranks_as_threads(plan, scheme));
}

RunRecord reference_of(ExperimentConfig config, int world) {
  config.scheme_options["single"] = SingleOptions{.replicas = world};
  return run(runner::plan_training(config, "single", 1));
}

RunRecord definition_of(const ExperimentConfig& config, const std::string& scheme, int world) {
  const RunPlan plan = runner::plan_training(config, scheme, world);
  if (has_own_definition(plan)) return run(runner::plan_definition(plan));
  ExperimentConfig alone = config;
  alone.faults = {};
  alone.faults.plan = poisons_for_definition(plan);
  return reference_of(std::move(alone), world);
}

RunPlan replay_plan_of(const RunRecord& row) {
  std::vector<ChunkHistory> history;
  for (const RankRecord& rank : row.ranks)
    history.insert(history.end(), rank.history.begin(), rank.history.end());
  return replay_of(row.plan, std::move(history));
}

std::size_t CheckedScheme::replicas() const {
  return scheme.info->own_replicas ? static_cast<std::size_t>(world) : 1;
}

ExperimentConfig CheckedScheme::with_options(ExperimentConfig config) const {
  config.scheme_options.try_emplace(std::string(scheme.info->name), scheme.options());
  if (!scheme.info->optimizer.empty()) {
    config.optimizer.kind = scheme.info->optimizer;
    config.optimizer.clip_norm = 0;
    // A second moment of few steps is much too small for some elements: this bounds their steps.
    config.optimizer.epsilon = 1e-3;
  }
  return config;
}

RunPlan CheckedScheme::plan_of(ExperimentConfig config) const {
  return runner::plan_training(with_options(std::move(config)), std::string(scheme.info->name),
                               world);
}

RunRecord CheckedScheme::run_of(const ExperimentConfig& config) const {
  return run(plan_of(config), scheme.info);
}

RunRecord CheckedScheme::definition(const ExperimentConfig& config) const {
  try {
    return definition_of(with_options(config), std::string(scheme.info->name), world);
  } catch (const Error& error) {
    throw Error("its definition: {}", error.what());
  }
}

RunRecord CheckedScheme::definition(const ExperimentConfig& config, const RunRecord& row) const {
  return replayed() ? run(replay_plan_of(row), scheme.info) : definition(config);
}

Violations CheckedScheme::against_definition(const ExperimentConfig& config) const {
  const RunRecord row = run_of(config);
  return differences(row, definition(config, row));
}

}  // namespace ringside::tools::check
