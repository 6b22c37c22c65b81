#include "experiments/report/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "experiments/report/text_table.h"

namespace ringside {
namespace {

constexpr std::string_view step_ms = "step ms";

std::string percent(double share) { return fmt::format("{:+.1f}%", 100 * share); }

bool came_out(const CaseSummary& one) { return one.failed < one.repeats; }

std::string ratio(double value) { return fmt::format("{:.2f}", value); }

TableLine line_of(const PublishedFigure& one) {
  const auto text = one.figure == step_ms              ? milliseconds
                    : one.figure.starts_with("times ") ? ratio
                                                       : per_second;
  const auto error = one.deviation();
  return {one.experiment,
          one.label,
          std::to_string(one.world),
          one.figure,
          text(one.published),
          error ? text(*one.here) : "FAILED",
          error ? percent(*error) : "-",
          one.interval ? fmt::format("[{}, {}]", text(one.interval->low), text(one.interval->high))
                       : "-",
          one.fitted ? "fitted" : "predicted"};
}

using Deviation = std::pair<double, const PublishedFigure*>;

/// ", 3 of 4 within their intervals"; empty if there are no intervals.
std::string holding_text(const std::vector<Deviation>& found) {
  std::int64_t known = 0, within = 0;
  for (const auto& [error, figure] : found)
    if (const auto holds = figure->holds()) {
      ++known;
      within += *holds ? 1 : 0;
    }
  return known == 0 ? "" : fmt::format(", {} of {} within their intervals", within, known);
}

/// "4 predicted: median -1.2%, largest +4.5% (ResNet-50 at world 16)"; empty if there are none.
std::string deviations_text(const std::vector<PublishedFigure>& figures,
                            const std::string& experiment, bool fitted) {
  std::vector<Deviation> found;
  for (const PublishedFigure& one : figures)
    if (const auto error = one.deviation();
        error && one.experiment == experiment && one.fitted == fitted)
      found.emplace_back(*error, &one);
  if (found.empty()) return {};
  std::sort(found.begin(), found.end());
  const std::size_t half = found.size() / 2;
  const double median =
      found.size() % 2 == 1 ? found[half].first : (found[half - 1].first + found[half].first) / 2;
  const auto& [largest, where] =
      std::abs(found.front().first) > std::abs(found.back().first) ? found.front() : found.back();
  return fmt::format("{} {}: median {}, largest {} ({} at world {}){}", found.size(),
                     fitted ? "fitted" : "predicted", percent(median), percent(largest),
                     where->label, where->world, fitted ? "" : holding_text(found));
}

}  // namespace

std::optional<double> PublishedFigure::deviation() const {
  return here ? std::optional(*here / published - 1) : std::nullopt;
}

std::optional<bool> PublishedFigure::holds() const {
  if (!interval) return {};
  return interval->overlaps({published, published});
}

std::optional<PublishedFigure> published_figure(const CaseSummary& one,
                                                const std::vector<CaseSummary>& cases) {
  if (!one.published) return {};
  const Published& published = *one.published;
  PublishedFigure figure{.experiment = one.experiment,
                         .label = one.label,
                         .world = one.world,
                         .fitted = published.fitted,
                         .assumed = {one.cluster, one.assumed}};
  if (published.step_ms > 0) {
    figure.figure = step_ms;
    figure.published = published.step_ms;
    figure.here = one.step_ms;
    figure.interval = one.simulated_ms;
  } else if (published.times > 0) {
    figure.figure = fmt::format("times {}", published.over);
    figure.published = published.times;
    for (const CaseSummary& other : cases)
      if (other.label == published.over && other.world == one.world && came_out(other))
        figure.here = one.samples_per_s / other.samples_per_s;
  } else {
    figure.figure = "samples/s";
    figure.published = published.samples_per_s;
    figure.here = one.samples_per_s;
    if (one.simulated_ms) {
      const double samples = one.samples_per_s * one.step_ms;
      figure.interval = {samples / one.simulated_ms->high, samples / one.simulated_ms->low};
    }
  }
  if (!came_out(one)) figure.here.reset();
  return figure;
}

std::vector<PublishedFigure> published_figures(const std::vector<CaseSummary>& cases) {
  std::vector<PublishedFigure> figures;
  for (const CaseSummary& one : cases)
    if (auto figure = published_figure(one, cases)) figures.push_back(std::move(*figure));
  return figures;
}

std::string published_text(const std::vector<PublishedFigure>& figures) {
  if (figures.empty()) return {};
  std::vector<TableLine> lines = {{"experiment", "case", "world", "figure", "published", "here",
                                   "deviation", "interval", "this is"}};
  std::vector<std::string> experiments;
  for (const PublishedFigure& one : figures) {
    lines.push_back(line_of(one));
    if (experiments.empty() || experiments.back() != one.experiment)
      experiments.push_back(one.experiment);
  }
  const bool intervals = std::any_of(figures.begin(), figures.end(),
                                     [](const auto& one) { return one.interval.has_value(); });
  if (!intervals)
    for (TableLine& line : lines) line.erase(line.end() - 2);
  std::string out = text_table(lines) + "\n";
  for (const std::string& experiment : experiments)
    for (const bool fitted : {false, true})
      if (const auto text = deviations_text(figures, experiment, fitted); !text.empty())
        out += fmt::format("{}, {}.\n", experiment, text);
  out +=
      "\ndeviation: what came out here, divided by the published figure, minus 1. fitted: "
      "something was chosen so that this figure comes out. predicted: all others.\n";
  if (intervals)
    out +=
        "interval: where the figure lies as far as the errors that the cluster file states for its "
        "devices, its collectives and its steps allow.\n";
  std::vector<AssumedOf> assumed;
  for (const PublishedFigure& one : figures) assumed.push_back(one.assumed);
  if (const std::string text = assumed_text(assumed); !text.empty()) out += "\n" + text;
  return out;
}

}  // namespace ringside
