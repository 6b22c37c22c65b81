#include "experiments/report/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/report/text_table.h"

namespace ringside {
namespace {

bool by_step(const CaseSummary& one) { return one.published->step_ms > 0; }

std::string percent(double share) { return fmt::format("{:+.1f}%", 100 * share); }

TableLine line_of(const CaseSummary& one) {
  const Published& published = *one.published;
  const auto text = by_step(one) ? milliseconds : per_second;
  const auto error = deviation(one);
  return {one.experiment,
          one.label,
          std::to_string(one.world),
          by_step(one) ? "step ms" : "samples/s",
          text(by_step(one) ? published.step_ms : published.samples_per_s),
          error ? text(by_step(one) ? one.step_ms : one.samples_per_s) : "FAILED",
          error ? percent(*error) : "-",
          published.fitted ? "fitted" : "predicted"};
}

/// "4 predicted: median -1.2%, largest +4.5% (ResNet-50 at world 16)"; empty if there are none.
std::string deviations_text(const std::vector<CaseSummary>& cases, const std::string& experiment,
                            bool fitted) {
  std::vector<std::pair<double, const CaseSummary*>> found;
  for (const CaseSummary& one : cases)
    if (const auto error = deviation(one);
        error && one.experiment == experiment && one.published->fitted == fitted)
      found.emplace_back(*error, &one);
  if (found.empty()) return {};
  std::sort(found.begin(), found.end());
  const std::size_t half = found.size() / 2;
  const double median =
      found.size() % 2 == 1 ? found[half].first : (found[half - 1].first + found[half].first) / 2;
  const auto& [largest, where] =
      std::abs(found.front().first) > std::abs(found.back().first) ? found.front() : found.back();
  return fmt::format("{} {}: median {}, largest {} ({} at world {})", found.size(),
                     fitted ? "fitted" : "predicted", percent(median), percent(largest),
                     where->label, where->world);
}

}  // namespace

std::optional<double> deviation(const CaseSummary& one) {
  if (!one.published || one.failed == one.repeats) return {};
  return (by_step(one) ? one.step_ms / one.published->step_ms
                       : one.samples_per_s / one.published->samples_per_s) -
         1;
}

std::string published_text(const std::vector<CaseSummary>& cases) {
  std::vector<TableLine> lines = {
      {"experiment", "case", "world", "figure", "published", "here", "deviation", "this is"}};
  std::vector<std::string> experiments;
  for (const CaseSummary& one : cases) {
    if (!one.published) continue;
    lines.push_back(line_of(one));
    if (experiments.empty() || experiments.back() != one.experiment)
      experiments.push_back(one.experiment);
  }
  if (experiments.empty()) return {};
  std::string out = text_table(lines) + "\n";
  for (const std::string& experiment : experiments)
    for (const bool fitted : {false, true})
      if (const auto text = deviations_text(cases, experiment, fitted); !text.empty())
        out += fmt::format("{}, {}.\n", experiment, text);
  out +=
      "\ndeviation: what came out here, divided by the published figure, minus 1. fitted: "
      "something "
      "was chosen so that this figure comes out. predicted: all others.\n";
  return out;
}

}  // namespace ringside
