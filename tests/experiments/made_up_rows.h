// Rows of invented runs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/observe/run_record.h"
#include "experiments/runner/plan/planner.h"

namespace ringside {

/// An experiment with two samples in a step and one in a micro-batch. So runs at worlds 1 and 2
/// have the same SumTree: one group of two micro-batches.
inline runner::ExperimentConfig made_up_experiment() {
  runner::ExperimentConfig config;
  config.name = "trial";
  config.train.global_batch = 2;
  config.train.micro_batch = 1;
  config.train.steps = 6;
  config.train.warmup = 1;
  config.data.path = {"/text"};
  return config;
}

/// Gives the experiment a model with batch norms that normalise the micro-batches of `group` ranks
/// together.
inline void norm_in_groups(runner::ExperimentConfig& config, std::int64_t group) {
  config.model.kind = "resnet";
  config.data.kind = "synthetic-images";
  config.model.batch_norm_group = group;
}

/// Gives the row another plan, and as many ranks as that has.
inline void set_plan(RunRecord& row, RunPlan plan) {
  row.ranks.resize(plan.ranks.size());
  row.plan = std::move(plan);
}

inline RunRecord made_up_row(const std::string& scheme, int world, int repeat, double samples_per_s,
                             const std::string& hash, std::vector<double> loss) {
  RunRecord row;
  row.plan = runner::plan_training(made_up_experiment(), scheme, world);
  row.plan.repeat = repeat;
  row.plan.id.back() = static_cast<char>('0' + repeat);
  row.samples_per_s = samples_per_s;
  row.step_ms.median = 2000 / samples_per_s;
  row.parameter_hashes = {hash};
  row.loss = std::move(loss);
  row.ranks.resize(row.plan.ranks.size());
  for (std::size_t r = 0; r < row.ranks.size(); ++r) {
    row.ranks[r].rank = static_cast<int>(r);
    row.ranks[r].bytes_sent_per_step = 1e6 * static_cast<double>(r + 1);
    row.ranks[r].at_peak[MemoryKind::parameter] = 1000000 * static_cast<std::int64_t>(2 - r % 2);
  }
  return row;
}

}  // namespace ringside
