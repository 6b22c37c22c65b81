// The parts of a RunRecord that are structs of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fields.h"

namespace ringside {

/// The interval in which the step of a simulated run lies if the errors that its cluster states
/// are the largest ones (core/sim/stated_errors.h), in milliseconds.
struct StepBounds {
  double low_ms = 0, high_ms = 0;
};

Fields fields_of(StepBounds& bounds);

/// The prediction for a run by a simulation of this machine.
struct Prediction {
  double step_ms = 0;
  std::optional<StepBounds> bounds{};
  std::int64_t memory_peak = 0;  // bytes, of the rank with the largest peak
  std::string error{};           // why there is no prediction; the other members are then 0
};

Fields fields_of(Prediction& predicted);

/// A failure of a run that was started again.
struct Restart {
  std::string error;
  std::int64_t from = 0;        // steps of the checkpoint from which it went on; 0: it began anew
  std::int64_t lost_steps = 0;  // steps that were done after that, and were made again
  double down_s = 0;            // from the failure until all ranks had done a step
};

Fields fields_of(Restart& restart);

/// A stretch of an elastic run with one world.
struct WorldPeriod {
  std::int64_t from = 0;  // steps that were done when it began
  int world = 0;
  std::string cause;            // why the world before ended; empty: the run began
  std::int64_t lost_steps = 0;  // steps that were done after `from`, and were made again
  /// From the end of a process (of a fault on purpose: from the fault), or from the wish to change
  /// the world, until all ranks had left their step; and until all ranks of this world had done
  /// one.
  double left_s = 0, down_s = 0;
};

Fields fields_of(WorldPeriod& period);

struct Quantiles {
  double median = 0, p10 = 0, p90 = 0;
};

/// Quantiles by nearest rank among the sorted values. Each is one of the values: the median of an
/// even number of values is the lower of the two in the middle. All are 0 if there are no values.
Quantiles quantiles(std::vector<double> values);
/// The lower quartile, in the same way. Other work on the machine makes measurements slower, never
/// faster, so low values are the truer ones.
double lower_quartile(std::vector<double> values);

/// One evaluation of a run: figures of the held-out samples of all workers.
struct Evaluation {
  std::int64_t step = 0;
  double loss = 0;        // the sum of all terms of the loss
  double first_term = 0;  // the loss of the first term alone
  double accuracy = 0;    // of the first term: share of rows whose largest logit is at the target
  double seconds = 0;     // since the beginning of the first step, of the slowest worker
  /// The time of all steps up to this evaluation, of the slowest worker: without the time that
  /// evaluations took.
  double training_s = 0;
};

Fields fields_of(Evaluation& evaluation);

/// A figure that a scheme reports of itself, over the workers that report it.
struct RunFigure {
  std::string name, unit;
  double mean = 0, max = 0;
};

Fields fields_of(RunFigure& figure);

/// The staleness of all gradients that servers applied: in updates and in milliseconds (to 1%).
struct RunStaleness {
  double p50 = 0, p95 = 0, max = 0;
  struct {
    double p50 = 0, p95 = 0, max = 0;
  } ms;
  std::vector<std::int64_t> histogram;  // how many had staleness 0, 1, ... updates
  std::int64_t dropped = 0;             // gradients that arrived too late and were not applied
};

Fields fields_of(RunStaleness& staleness);

/// The workers that showed their parameters at the end, and the ranks that keep each part of them,
/// to locate wrong values.
struct RunParameters {
  std::int64_t shown_by = 0;  // number of workers; 0 in records without this figure
  /// Ranks of workers whose parameters differ from those of the first worker, although the scheme
  /// promises equal ones.
  std::vector<std::int64_t> differing{};
  /// Hashes of blocks of the parameters (core/observe/parameter_digest.h); empty if workers end
  /// with replicas of their own.
  std::string blocks{};
  /// Of each block the rank that keeps all of it, or -1. Empty if workers keep whole replicas.
  std::vector<std::int64_t> keepers{};
};

Fields fields_of(RunParameters& parameters);

/// The result of a run's replay (Promise::replayed).
struct Replay {
  std::vector<std::string> parameter_hashes;
  std::vector<double> loss;
  std::vector<Evaluation> evaluations;
  std::string error;  // why there is no replay; the other members are then empty
};

Fields fields_of(Replay& replay);

}  // namespace ringside
