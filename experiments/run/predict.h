// Predicts a run by simulating it on this machine's calibrated cluster.
#pragma once

#include <optional>
#include <vector>

#include "core/observe/row.h"
#include "experiments/run/run.h"

namespace ringside {

/// The plan of the simulated run that predicts `measured` on `machine`. It equals `measured` in
/// everything that time and memory depend on, but has only a few steps.
RunPlan prediction_plan(const RunPlan& measured, const sim::ClusterSpec& machine);

/// Predicts the cases of a comparison. Each case is simulated once, in a process of its own.
class Predictor {
 public:
  /// `machine` is the calibrated machine; without one nothing is predicted.
  Predictor(std::optional<sim::ClusterSpec> machine, RankStart start);
  /// Returns the prediction for the run's case. Blocks while a case is simulated for the first
  /// time. Returns nothing without a machine, and nothing for `single` on all cores.
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
