// Time to loss: the time and the traffic that runs spent until their held-out loss reached a
// target.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "core/observe/run_record.h"
#include "experiments/runner/report/interval.h"

namespace ringside::runner {

/// The cost of a run until its held-out loss first reached the target.
struct Cost {
  double seconds = 0;  // in steps, of the slowest worker; time of evaluations is left out
  double samples = 0;
  double bytes = 0;  // sent by all ranks: their mean bytes of a measured step, times the steps
};

/// Returns the cost at the first crossing of `target`, interpolated linearly between the last
/// evaluation above the target and the next one. If already the first evaluation has reached the
/// target, the cost is that of the first evaluation. Returns nothing if no evaluation has.
std::optional<Cost> cost_to(const RunRecord& row, double target);

/// The held-out loss at the end of a run: the mean over its last three evaluations, or over all if
/// there are fewer. Returns nothing for a run without evaluations.
std::optional<double> final_loss(const RunRecord& row);

/// The median of some values, and their range.
struct Spread {
  double median = 0;
  Interval range{};
};

/// The time to loss of one case, over all of its seeds and repeats.
struct TimeToLoss {
  int runs = 0, reached = 0;  // `reached` runs have reached their target
  /// Runs with several seeds may have several targets. None if `single` decides the target but has
  /// not finished this training.
  std::optional<Spread> target{};
  /// Present if every run has reached its target.
  std::optional<Spread> seconds{}, samples{}, bytes{};
  /// Seconds of `single` divided by those of the case, both of the same seed and repeat. Present if
  /// `single` was compared and both always reach the target.
  std::optional<Spread> speed_up{};
  /// final_loss() minus that of `single` with the same seed.
  std::optional<Spread> final_difference{};
  /// Half of the range of final_loss() of `single` over the seeds: a difference that comes from
  /// seeds alone. Present if there are two seeds or more.
  std::optional<double> seed_spread{};
};

/// Summarises the time to loss of a case. `runs` are the finished records of the case that count.
/// The runs of `single` with the same training are looked up among `rows`, all records of the
/// comparison that count (experiments/runner/results/attempts.h). Returns nothing if the plan names
/// no target, or if no run was evaluated.
std::optional<TimeToLoss> time_to_loss(const std::vector<const RunRecord*>& runs,
                                       const std::vector<const RunRecord*>& rows);

nlohmann::ordered_json to_json(const TimeToLoss& time);

}  // namespace ringside::runner
