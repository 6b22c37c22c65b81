// A test whether two samples of one figure differ, and an estimate of the difference, without an
// assumption about their distribution.
#pragma once

#include <optional>
#include <vector>

#include "experiments/runner/report/interval.h"

namespace ringside::runner {

/// The rank test of Mann and Whitney (Annals of Mathematical Statistics 18, 1947).
struct RankTest {
  /// The number of pairs of a value of `a` and a value of `b` in which the value of `a` is larger;
  /// equal values count half.
  double u = 0;
  double p = 1;  // two-sided: the probability that samples of one distribution are as far apart
  bool exact = true;  // false: p by the normal approximation
};

/// Up to most_exact values in both samples together, p is exact: all ways of dividing the values
/// over the two samples are counted, with mid-ranks for equal values. Beyond, p follows from the
/// normal distribution with corrections for continuity and ties. p is 1 if a sample is empty.
RankTest mann_whitney(const std::vector<double>& a, const std::vector<double>& b);
inline constexpr std::size_t most_exact = 100;

/// The smallest p that the exact test can give samples of these sizes, however far they are apart.
double smallest_p(std::size_t a, std::size_t b);

/// The largest p with which a difference is shown at this confidence: 1 - confidence, and a little
/// more for what rounding does to 1 - 0.9.
double largest_p(double confidence);

/// The factor by which the values of `b` are larger than those of `a`.
struct Factor {
  double estimate = 1;               // median of all quotients b / a (Hodges and Lehmann, 1963)
  std::optional<Interval> interval;  // at the confidence that was asked for
};

/// All values must be positive, and each sample must have at least one. Without equal values the
/// interval contains 1 if and only if mann_whitney() gives more than largest_p() (Hollander and
/// Wolfe, Nonparametric Statistical Methods, section 4.3); there is none for samples that are so
/// small that no p is that small.
Factor factor_between(const std::vector<double>& a, const std::vector<double>& b,
                      double confidence);

/// The values of p for several tests at once, corrected as Holm (Scandinavian Journal of Statistics
/// 6, 1979) does: if there is no difference in any of the tests, the smallest corrected value is
/// below x with probability x at most.
std::vector<double> holm(const std::vector<double>& p);

}  // namespace ringside::runner
