#include "experiments/runner/report/ranking.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace ringside::runner {
namespace {

/// Of a simulated case with stated errors, the interval in which a figure lies that is proportional
/// to 1 / step. The figure itself is in it: where steps alternate, the median step may be none of
/// those that the interval is about.
Interval as_simulated(const CaseSummary& one, double figure) {
  const double times_step = figure * one.step_ms;
  return {std::min(figure, times_step / one.simulated_ms->high),
          std::max(figure, times_step / one.simulated_ms->low)};
}

/// The interval of the speed-up as a comparison ranks by it; nothing if it is not known.
std::optional<Interval> interval_of_speed_up(const CaseSummary& one) {
  if (!one.simulated() || !one.simulated_ms) return one.speed_up.interval;
  if (one.speed_up.median < 0) return {};
  return as_simulated(one, one.speed_up.median);
}

/// That of samples/s.
std::optional<Interval> interval_of_rate(const CaseSummary& one) {
  const double rate = one.samples_per_s;
  if (!one.simulated()) {
    if (one.runs.finished() < 2) return {};
    return Interval{rate * (1 - one.spread), rate * (1 + one.spread)};
  }
  return one.simulated_ms ? as_simulated(one, rate) : Interval{rate, rate};
}

/// That of the time to loss.
std::optional<Interval> interval_of_time(const CaseSummary& one) {
  if (!one.time_to_loss || !one.time_to_loss->seconds) return {};
  const Interval& range = one.time_to_loss->seconds->range;
  if (!one.simulated()) return one.runs.finished() < 2 ? std::nullopt : std::optional(range);
  if (!one.simulated_ms || one.step_ms <= 0) return range;
  // The time grows as steps do: by what the step may be longer, or shorter.
  return Interval{range.low * std::min(1.0, one.simulated_ms->low / one.step_ms),
                  range.high * std::max(1.0, one.simulated_ms->high / one.step_ms)};
}

}  // namespace

bool told_apart(const CaseSummary& one, const CaseSummary& other) {
  const auto apart = [](const std::optional<Interval>& a, const std::optional<Interval>& b) {
    return a && b && !a->overlaps(*b);
  };
  const auto speed_up = interval_of_speed_up(one), of_other = interval_of_speed_up(other);
  if (one.baseline >= 0 && one.baseline == other.baseline && speed_up && of_other)
    return apart(speed_up, of_other);
  return apart(interval_of_rate(one), interval_of_rate(other));
}

bool has_interval(const CaseSummary& one) { return interval_of_rate(one).has_value(); }

bool told_apart_in_time(const CaseSummary& one, const CaseSummary& other) {
  const auto time = interval_of_time(one), of_other = interval_of_time(other);
  return time && of_other && !time->overlaps(*of_other);
}

bool has_time_interval(const CaseSummary& one) { return interval_of_time(one).has_value(); }

std::vector<Tie> ties(const std::vector<CaseSummary>& cases) {
  std::vector<Tie> out;
  std::vector<std::pair<const CaseSummary*, Interval>> certain;
  for (const CaseSummary& one : cases)
    if (const auto interval = interval_of_speed_up(one)) certain.emplace_back(&one, *interval);
  // Intervals that have a value in common all contain the lower end of one of them. So each lower
  // end is tried as that value.
  for (const auto& [lowest, lower] : certain) {
    Tie tie{lowest->plan.world, {}};
    for (const auto& [one, interval] : certain)
      if (one->plan.world == tie.world && one->baseline == lowest->baseline &&
          interval.overlaps({lower.low, lower.low}))
        tie.labels.push_back(one->label());
    const auto within = [](const Tie& part, const Tie& whole) {
      return part.world == whole.world &&
             std::all_of(part.labels.begin(), part.labels.end(), [&](const std::string& label) {
               return std::find(whole.labels.begin(), whole.labels.end(), label) !=
                      whole.labels.end();
             });
    };
    if (tie.labels.size() < 2 ||
        std::any_of(out.begin(), out.end(), [&](const Tie& other) { return within(tie, other); }))
      continue;
    std::erase_if(out, [&](const Tie& other) { return within(other, tie); });
    out.push_back(std::move(tie));
  }
  return out;
}

}  // namespace ringside::runner
