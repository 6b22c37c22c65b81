// How sure a figure is that was measured a few times.
#pragma once

#include <optional>
#include <vector>

namespace ringside {

/// The mean of the two in the middle for an even number of values; 0 for none.
double median(std::vector<double> values);

struct Interval {
  double low = 0, high = 0;
  bool overlaps(const Interval& other) const { return low <= other.high && other.low <= high; }
};

/// A 95% interval of the median: percentile bootstrap (Efron and Tibshirani, An Introduction to the
/// Bootstrap, 1993, chapter 13) over 2,000 resamples, which are the same ones for every call. None
/// for fewer than two values.
///
/// With few values it promises more than it holds. Of up to 5 values it is the range, which misses
/// the true median with probability 2 * 2^-n: 3 values cover it in 75% of all cases, 5 in 94%.
std::optional<Interval> median_interval(const std::vector<double>& values);

}  // namespace ringside
