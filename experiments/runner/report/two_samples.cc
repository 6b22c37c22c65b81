#include "experiments/runner/report/two_samples.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace ringside::runner {
namespace {

/// Twice the rank of each value of both samples (those of `a` first), so that mid-ranks are whole.
std::vector<std::size_t> doubled_ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t i, std::size_t j) { return values[i] < values[j]; });
  std::vector<std::size_t> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first + 1;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    for (std::size_t i = first; i < end; ++i) ranks[order[i]] = first + end + 1;
    first = end;
  }
  return ranks;
}

/// At [s]: how many subsets of `chosen` of the ranks have the sum s. For ranks 1, 2, ..., n this is
/// the recurrence of Mann and Whitney: a subset has the largest rank, or has not.
std::vector<double> subsets_by_sum(const std::vector<std::size_t>& ranks, std::size_t chosen) {
  const std::size_t largest = std::accumulate(ranks.begin(), ranks.end(), std::size_t{0});
  std::vector<std::vector<double>> subsets(chosen + 1, std::vector<double>(largest + 1, 0));
  subsets[0][0] = 1;
  std::size_t seen = 0, reached = 0;
  for (const std::size_t rank : ranks) {
    reached += rank;
    ++seen;
    for (std::size_t size = std::min(chosen, seen); size > 0; --size)
      for (std::size_t sum = rank; sum <= reached; ++sum)
        subsets[size][sum] += subsets[size - 1][sum - rank];
  }
  return std::move(subsets[chosen]);
}

double sum_of(const std::vector<double>& counts, std::size_t first, std::size_t end) {
  return std::accumulate(counts.begin() + static_cast<std::ptrdiff_t>(first),
                         counts.begin() + static_cast<std::ptrdiff_t>(end), 0.0);
}

double exact_p(const std::vector<std::size_t>& ranks, std::size_t of_a, std::size_t rank_sum) {
  const std::vector<double> subsets = subsets_by_sum(ranks, of_a);
  const double all = sum_of(subsets, 0, subsets.size());
  const double below = sum_of(subsets, 0, rank_sum + 1);
  const double above = sum_of(subsets, rank_sum, subsets.size());
  return std::min(1.0, 2 * std::min(below, above) / all);
}

double normal_cdf(double z) { return std::erfc(-z / std::sqrt(2.0)) / 2; }

/// The sum of t^3 - t over all groups of t equal values.
double ties_of(std::vector<std::size_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  double sum = 0;
  for (auto first = ranks.begin(); first != ranks.end();) {
    const auto end = std::upper_bound(first, ranks.end(), *first);
    const auto equal = static_cast<double>(end - first);
    sum += equal * equal * equal - equal;
    first = end;
  }
  return sum;
}

/// The standard deviation of U.
double deviation(double n, double m, double ties) {
  const double all = n + m;
  return std::sqrt(n * m / 12 * (all + 1 - ties / (all * (all - 1))));
}

double normal_p(double u, double n, double m, double ties) {
  const double spread = deviation(n, m, ties);
  const double distance = std::abs(u - n * m / 2) - 0.5;
  return spread > 0 ? std::min(1.0, 2 * normal_cdf(-distance / spread)) : 1;
}

/// The number of the n * m quotients in order that lie outside of the interval at each end; -1:
/// even the smallest and the largest quotient are too close.
std::int64_t left_out(std::size_t n, std::size_t m, double each_end) {
  const auto pairs = static_cast<std::int64_t>(n * m);
  if (n + m > most_exact) {
    const auto wide = static_cast<double>(n), high = static_cast<double>(m);
    const double spread = deviation(wide, high, 0);
    std::int64_t k = -1;
    while (normal_cdf((static_cast<double>(k) + 1.5 - wide * high / 2) / spread) <= each_end) ++k;
    return std::min(k, pairs / 2);
  }
  std::vector<std::size_t> ranks(n + m);
  std::iota(ranks.begin(), ranks.end(), std::size_t{1});
  const std::vector<double> subsets = subsets_by_sum(ranks, n);
  const double all = sum_of(subsets, 0, subsets.size());
  const std::size_t least = n * (n + 1) / 2;  // the rank sum of U = 0
  std::int64_t k = -1;
  while (sum_of(subsets, 0, least + static_cast<std::size_t>(k + 2)) / all <= each_end) ++k;
  return k;
}

}  // namespace

RankTest mann_whitney(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.empty() || b.empty()) return {};
  std::vector<double> values = a;
  values.insert(values.end(), b.begin(), b.end());
  const std::vector<std::size_t> ranks = doubled_ranks(values);
  const std::size_t rank_sum = std::accumulate(
      ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(a.size()), std::size_t{0});
  RankTest out;
  out.u = static_cast<double>(rank_sum - a.size() * (a.size() + 1)) / 2;
  out.exact = values.size() <= most_exact;
  out.p = out.exact ? exact_p(ranks, a.size(), rank_sum)
                    : normal_p(out.u, static_cast<double>(a.size()), static_cast<double>(b.size()),
                               ties_of(ranks));
  return out;
}

double smallest_p(std::size_t a, std::size_t b) {
  double ways = 1;  // in which a + b values can be divided
  for (std::size_t i = 1; i <= a; ++i) ways *= static_cast<double>(b + i) / static_cast<double>(i);
  return std::min(1.0, 2 / ways);
}

double largest_p(double confidence) { return (1 - confidence) * (1 + 1e-9); }

Factor factor_between(const std::vector<double>& a, const std::vector<double>& b,
                      double confidence) {
  std::vector<double> quotients;
  for (const double of_a : a)
    for (const double of_b : b) quotients.push_back(of_b / of_a);
  std::sort(quotients.begin(), quotients.end());
  Factor out{median(quotients), {}};
  const std::int64_t k = left_out(a.size(), b.size(), largest_p(confidence) / 2);
  if (k < 0) return out;
  const auto at = static_cast<std::size_t>(k);
  out.interval = Interval{quotients[at], quotients[quotients.size() - 1 - at]};
  return out;
}

std::vector<double> holm(const std::vector<double>& p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t i, std::size_t j) { return p[i] < p[j]; });
  std::vector<double> out(p.size());
  double least = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    least = std::max(least, std::min(1.0, static_cast<double>(p.size() - i) * p[order[i]]));
    out[order[i]] = least;
  }
  return out;
}

}  // namespace ringside::runner
