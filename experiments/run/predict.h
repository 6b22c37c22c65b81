// What a simulation of this machine says of a run on it.
#pragma once

#include <optional>
#include <vector>

#include "core/observe/row.h"
#include "experiments/run/run.h"

namespace ringside {

/// The simulated run that predicts `measured` on `machine`: the same in everything that time and
/// memory depend on, for a few steps.
RunPlan prediction_plan(const RunPlan& measured, const sim::ClusterSpec& machine);

/// Predicts the cases of a comparison, each once, in processes of their own.
class Predictor {
 public:
  /// Without a machine predicts nothing.
  Predictor(std::optional<sim::ClusterSpec> machine, RankStart start);
  /// Blocks while it simulates a case that is new. None if there is no machine.
  std::optional<Prediction> predict(const RunPlan& measured);

 private:
  struct Case {
    RunPlan plan;
    std::optional<Prediction> prediction;
  };
  std::optional<sim::ClusterSpec> machine_;
  RankStart start_;
  std::vector<Case> known_;
};

}  // namespace ringside
