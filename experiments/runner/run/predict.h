// The prediction of a run by a simulation on this machine's calibrated cluster, with the error that
// such predictions have had.
#pragma once

#include <optional>
#include <vector>

#include "core/observe/run_record.h"
#include "core/sim/stated_errors.h"
#include "experiments/runner/registry/calibrated_machine.h"
#include "experiments/runner/run/run.h"

namespace ringside::runner {

/// The plan of the simulated run that predicts `measured` on `machine`. It equals `measured` in
/// everything that time and memory depend on, but has only a few steps.
RunPlan prediction_plan(const RunPlan& measured, const sim::ClusterSpec& machine);

/// The same simulated run on the fastest and on the slowest cluster that the errors of its cluster
/// allow; nothing if the cluster does not state the error of its devices.
std::vector<RunPlan> bound_plans(const RunPlan& simulated);
/// The interval of the step of a simulated run: `outcomes` are those of its bound_plans(). Nothing
/// if one of these failed.
std::optional<StepBounds> bounds_of(const std::vector<RunPlan>& plans,
                                    const std::vector<RunOutcome>& outcomes);

/// Predicts the cases of a comparison. Each case is simulated once, in a process of its own.
class Predictor {
 public:
  /// `machine` is the calibrated machine; without one nothing is predicted.
  Predictor(std::optional<CalibratedMachine> machine, RankStart start);
  /// Returns the prediction for the run's case. Blocks while a case is simulated for the first
  /// time. Returns nothing without a machine, and for runs that are simulated or run by another
  /// program, that the machine does not describe (CalibratedMachine), whose ranks share a GPU or
  /// need more GPUs than it has, whose workers are slowed (device.slow, device.jitter), with an
  /// unknown order of sums, or with offload: the host is the processor on which they compute.
  std::optional<Prediction> predict(const RunPlan& measured);
  /// The peak rate of one worker of the run on the calibrated machine. Returns nothing without a
  /// machine, and for runs that are simulated or that the machine does not describe.
  std::optional<Peak> peak(const RunPlan& measured) const;
  /// Returns the interval of the step of a simulated run: the run is simulated twice more, on the
  /// fastest and on the slowest cluster that the errors of its cluster allow. Blocks for that time
  /// when it is called for a case for the first time. Returns nothing for runs that are not
  /// simulated, for references, with sim.intervals = false, and for clusters that do not state the
  /// error of their devices.
  std::optional<StepBounds> bounds(const RunPlan& simulated);

 private:
  /// Whether the run's workers compute on the calibrated machine.
  bool describes(const RunPlan& measured) const;
  template <class Answer>
  struct Known {
    RunPlan plan;
    std::optional<Answer> answer;
  };
  std::optional<StepBounds> simulate_bounds(const RunPlan& plan) const;

  std::optional<CalibratedMachine> machine_;
  RankStart start_;
  std::vector<Known<Prediction>> predicted_;
  std::vector<Known<StepBounds>> bounded_;
};

}  // namespace ringside::runner
