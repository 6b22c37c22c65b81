// Cases of `explain` that are staged: a simulated run in which something is wrong on purpose.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "experiments/runner/config/cases.h"
#include "experiments/runner/plan/planner.h"
#include "experiments/runner/report/report.h"
#include "experiments/runner/results/trace.h"
#include "experiments/runner/run/simulation.h"
#include "experiments/tools/explain/explanation.h"
#include "tests/support/small_cluster.h"

namespace ringside {

/// A row, and the evidence that points to it.
struct Staged {
  std::unique_ptr<RunRecord> row;
  tools::explain::Evidence evidence;
};

/// Simulates in this thread; a run that fails is a record with the cause.
inline std::vector<runner::RunOutcome> simulate_here(const std::vector<RunPlan>& plans, double) {
  std::vector<runner::RunOutcome> out;
  for (const RunPlan& plan : plans) {
    runner::RunOutcome& outcome = out.emplace_back();
    try {
      outcome.row = make_row(plan, runner::simulate(plan, [](const Progress&) {}));
    } catch (const std::exception& error) {
      outcome.row = failed_row(plan, error.what());
    }
  }
  return out;
}

inline tools::explain::WhatIfSetup simulated_ground() {
  tools::explain::WhatIfSetup ground;
  ground.simulate = simulate_here;
  return ground;
}

/// The evidence of a finished run, with the trace of its records.
inline Staged evidence_of_records(const RunPlan& plan, std::vector<RankRecord> records) {
  Staged out;
  const nlohmann::json traced = runner::trace(records);
  out.row = std::make_unique<RunRecord>(make_row(plan, std::move(records)));
  out.evidence = tools::explain::evidence_of_case(runner::summarise({*out.row}).front(),
                                                  {out.row.get()}, "no folder");
  tools::explain::add_trace(out.evidence, traced_run(runner::read_trace(traced), plan));
  return out;
}

inline Staged stage(const runner::ExperimentConfig& config, const std::string& scheme, int world) {
  const RunPlan plan = runner::plan_training(config, scheme, world);
  return evidence_of_records(plan, runner::simulate(plan, [](const Progress&) {}));
}

/// A GPT with four blocks, `samples` samples a step, on `devices` GPUs of small_cluster().
inline runner::ExperimentConfig staged_experiment(std::int64_t devices, std::int64_t samples) {
  runner::ExperimentConfig config;
  config.name = "staged";
  config.model.layers = 4;
  config.model.heads = 4;
  config.model.width = 128;
  config.model.context = 64;
  config.data.kind = "synthetic";
  config.train.steps = 5;
  config.train.warmup = 1;
  config.train.global_batch = samples;
  config.device.kind = "sim";
  config.cluster = testing::small_cluster(devices);
  return config;
}

/// The configuration with some keys set.
inline runner::ExperimentConfig with(const runner::ExperimentConfig& config,
                                     const std::vector<std::string>& settings) {
  std::vector<runner::Assignment> set;
  for (const std::string& text : settings) set.push_back(runner::parse_assignment(text, text));
  return runner::bind_line(config, set, {}, config.name);
}

}  // namespace ringside
