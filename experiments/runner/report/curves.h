// Loss curves: the time and the traffic that runs had spent when they reached each loss.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/fields.h"
#include "core/observe/run_record.h"

namespace ringside::runner {

/// Lists of equal length: entry i is the cost of the run up to step[i], and its loss then.
struct LossCurve {
  std::vector<std::int64_t> step;
  std::vector<double> samples;
  std::vector<double> seconds;
  std::vector<double> bytes;  // sent by all ranks: their mean bytes of a measured step, times steps
  std::vector<double> loss;
  std::vector<double> accuracy;  // empty for losses of training
  std::int64_t of = 0;           // the number of points of the run
};

Fields fields_of(LossCurve& curve);

/// Curves have at most this many of a run's points, evenly spaced, the first and the last among
/// them. Points are left out, never averaged.
inline constexpr std::size_t most_points = 200;

/// The bytes that all ranks of the run together send in a step.
double bytes_of_all_ranks(const RunRecord& row);

/// The loss of every step. A record keeps no time of each step, so `seconds` are samples divided by
/// the record's samples/s: the mean time of a measured step, times steps. None if nothing was
/// computed.
std::optional<LossCurve> training_curve(const RunRecord& row);

/// The held-out loss of every evaluation; of runs whose workers do not wait for each other, over
/// time. `seconds` were measured: those of the slowest worker in steps, without evaluations.
/// Nothing if there are no evaluations.
std::optional<LossCurve> evaluation_curve(const RunRecord& row);

}  // namespace ringside::runner
