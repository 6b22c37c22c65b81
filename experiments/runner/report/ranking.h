// The rule by which a comparison ranks cases, and names a best one.
#pragma once

#include "experiments/runner/report/report.h"

namespace ringside::runner {

/// Whether a comparison can tell which of two cases is faster: whether their intervals have no
/// value in common. The intervals are those of the speed-ups if both cases have the same baseline,
/// and otherwise those of samples/s, half of the range to each side. Intervals of simulated cases
/// follow from CaseSummary::simulated_ms; a simulation without stated errors is exact. A measured
/// figure of one repeat has no interval, so it tells nothing.
bool told_apart(const CaseSummary& one, const CaseSummary& other);
/// Whether the case has such an interval of its samples/s, and may be told apart from others.
bool has_interval(const CaseSummary& one);

/// The same for the times to loss of two cases that have one: the range over seeds and repeats, in
/// a simulation widened by what its cluster states of its errors.
bool told_apart_in_time(const CaseSummary& one, const CaseSummary& other);
bool has_time_interval(const CaseSummary& one);

}  // namespace ringside::runner
