// The text of a diff.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/base/counted.h"
#include "experiments/runner/report/diff.h"
#include "experiments/runner/report/published.h"
#include "experiments/runner/report/text_table.h"
#include "experiments/runner/report/two_samples.h"

namespace ringside::runner {
namespace {

constexpr std::size_t longest_value = 60, most_differences = 24;

/// The value, cut where it is too long for a line.
std::string short_text(const std::string& value) {
  if (value.size() <= longest_value) return value;
  std::size_t end = longest_value;
  while (end > 0 && (value[end] & 0xC0) == 0x80) --end;  // within a character of UTF-8
  return value.substr(0, end) + "...";
}

std::string differences_text(const std::string& title, const std::vector<Difference>& all) {
  if (all.empty()) return fmt::format("{} is the same.\n", title);
  std::string out = fmt::format("{} differs:\n", title);
  for (std::size_t i = 0; i < std::min(all.size(), most_differences); ++i) {
    const Difference& one = all[i];
    out += fmt::format("  {}: {} -> {}", one.what, short_text(one.a), short_text(one.b));
    if (one.cases.size() > 3)
      out += fmt::format(" ({} and {} more)", one.cases[0], one.cases.size() - 1);
    else if (!one.cases.empty())
      out += fmt::format(" ({})", fmt::join(one.cases, ", "));
    out += "\n";
  }
  if (all.size() > most_differences)
    out += fmt::format("  and {} more, which --json names\n", all.size() - most_differences);
  return out;
}

std::string figure_text(double figure, bool relative) {
  return relative ? fmt::format("{:.3f}", figure) : per_second(figure);
}

std::string sample_text(const std::vector<double>& figures, bool relative) {
  if (figures.empty()) return "-";
  std::string out = figure_text(median(figures), relative);
  if (const auto interval = median_interval(figures))
    out += fmt::format(" [{}, {}]", figure_text(interval->low, relative),
                       figure_text(interval->high, relative));
  return out;
}

std::string p_text(const SpeedDiff& one) {
  if (one.simulated || one.outcome == SpeedChange::not_compared) return "-";
  if (one.corrected_p < 0.0001) return "< 0.0001";
  return fmt::format("{:.{}f}", one.corrected_p, one.corrected_p < 0.01 ? 4 : 2);
}

std::string change_text(const SpeedDiff& one) {
  if (one.outcome == SpeedChange::not_compared) return "-";
  std::string out = percent(one.change);
  if (one.low && one.high) out += fmt::format(" [{}, {}]", percent(*one.low), percent(*one.high));
  return out;
}

std::string outcome_text(const SpeedDiff& one) {
  std::string out(name_of(one.outcome));
  if (one.outcome == SpeedChange::slower) out = "SLOWER";
  if (one.simulated) out += ", simulated";
  if (one.disturbed > 0) out += fmt::format(" ({} disturbed)", counted(one.disturbed, "repeat"));
  return out;
}

std::string speed_table(const Diff& diff) {
  std::vector<TableLine> lines = {{"row", "world", "n", "figure", "A", "B",
                                   fmt::format("change [{:.0f}%]", 100 * diff.rule.confidence), "p",
                                   "verdict"}};
  for (const SpeedDiff& one : diff.speeds) {
    const bool relative = !one.relative_to.empty();
    lines.push_back(
        {one.label, std::to_string(one.world), fmt::format("{}+{}", one.a.size(), one.b.size()),
         relative ? "x " + one.relative_to : "samples/s", sample_text(one.a, relative),
         sample_text(one.b, relative), change_text(one), p_text(one), outcome_text(one)});
  }
  return text_table(lines);
}

std::string value_table(const Diff& diff) {
  std::vector<TableLine> lines = {{"row", "world", "what", "A", "B", "change", "verdict"}};
  for (const ValueDiff& one : diff.values)
    lines.push_back({one.label, std::to_string(one.world), one.what, one.a, one.b,
                     one.change ? percent(*one.change) : "-",
                     one.regression ? "WORSE" : "changed"});
  return text_table(lines);
}

/// The meaning of the columns in the table of speeds.
std::string legend(const Diff& diff) {
  const auto any = [&](auto which) {
    return std::any_of(diff.speeds.begin(), diff.speeds.end(), which);
  };
  std::string out =
      "n: repeats of A and B. A and B: the median with its interval over repeats. change: the "
      "median of all quotients B / A.\n";
  if (any([](const SpeedDiff& one) { return !one.relative_to.empty(); }))
    out +=
        "x single: samples/s divided by those of that row in the same repeat, so that a machine "
        "which is slower at one time cancels out.\n";
  out += "p: of the test of Mann and Whitney (two-sided, ";
  out += any([](const SpeedDiff& one) { return !one.exact; })
             ? fmt::format("exact up to {} figures, beyond by the normal distribution", most_exact)
             : std::string("exact");
  return out + "), corrected for the number of rows as Holm does.\n";
}

std::string rows_text(std::size_t rows) {
  return rows == 1 ? std::string("the row") : fmt::format("the {} rows", rows);
}

/// The fewest repeats on both sides with which so many rows can show a difference.
std::size_t fewest_repeats(std::size_t rows, double confidence) {
  std::size_t repeats = 1;
  while (smallest_p(repeats, repeats) * static_cast<double>(rows) > largest_p(confidence))
    ++repeats;
  return repeats;
}

std::string verdict_text(const Diff& diff) {
  std::vector<std::string> regressions;
  std::size_t compared = 0, too_few = 0, tested = 0;
  for (const SpeedDiff& one : diff.speeds) {
    if (one.outcome == SpeedChange::not_compared) continue;
    ++compared;
    if (!one.simulated) ++tested;
    if (one.outcome == SpeedChange::too_few) ++too_few;
    if (one.outcome == SpeedChange::slower)
      regressions.push_back(
          fmt::format("{} is {:.1f}% slower", case_name(one.label, one.world), -100 * one.change));
  }
  for (const ValueDiff& one : diff.values)
    if (one.regression)
      regressions.push_back(fmt::format("{} of {}: {} -> {}", one.what,
                                        case_name(one.label, one.world), one.a, one.b));
  std::string out;
  if (!regressions.empty())
    out = fmt::format("REGRESSION: {}", fmt::join(regressions, "; "));
  else if (compared == 0 || too_few == compared)
    out = "Nothing is known about speed";
  else
    out = fmt::format("No regression: of {}, none is shown to be slower by {:.3g}% or more",
                      rows_text(compared - too_few), 100 * diff.rule.threshold);
  if (too_few > 0)
    out += fmt::format(
        "; {} of {} rows have too few repeats to show anything at {:.3g}% confidence, for which "
        "{} on each side are the fewest (compare.repeats)",
        too_few, compared, 100 * diff.rule.confidence,
        fewest_repeats(tested, diff.rule.confidence));
  return out + ".\n";
}

}  // namespace

std::string diff_text(const Diff& diff) {
  std::string out = fmt::format("A: {}\nB: {}\n\n", diff.a, diff.b);
  for (const std::string& complaint : diff.complaints) out += complaint + "\n";
  if (!diff.complaints.empty()) out += "\n";
  out += differences_text("The environment", diff.environment);
  out += differences_text("The configuration", diff.configuration);
  if (!diff.only_a.empty()) out += fmt::format("Only in A: {}.\n", fmt::join(diff.only_a, ", "));
  if (!diff.only_b.empty()) out += fmt::format("Only in B: {}.\n", fmt::join(diff.only_b, ", "));
  out += "\n" + speed_table(diff) + "\n" + legend(diff) + "\n";
  if (!diff.values.empty()) out += value_table(diff) + "\n";
  return out + verdict_text(diff);
}

}  // namespace ringside::runner
