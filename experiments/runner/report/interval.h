// The uncertainty of the median of a few measurements.
#pragma once

#include <optional>
#include <vector>

namespace ringside::runner {

/// The median; for an even number of values the mean of the two in the middle, and 0 for no values.
double median(std::vector<double> values);

struct Interval {
  double low = 0, high = 0;
  bool overlaps(const Interval& other) const { return low <= other.high && other.low <= high; }
};

/// A 95% interval of the median: percentile bootstrap (Efron and Tibshirani, An Introduction to the
/// Bootstrap, 1993, chapter 13) over 2,000 resamples, which are the same for every call. Returns
/// nothing for fewer than two values.
///
/// With few values the interval is too narrow for 95%. For n <= 5 values it runs from the smallest
/// value to the largest, and misses the true median with probability 2 * 2^-n: the interval of 3
/// values contains the median in 75% of all cases, the interval of 5 values in 94%.
std::optional<Interval> median_interval(const std::vector<double>& values);

}  // namespace ringside::runner
