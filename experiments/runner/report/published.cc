#include "experiments/runner/report/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace ringside::runner {
namespace {

bool have_intervals(const std::vector<PublishedFigure>& figures) {
  return std::any_of(figures.begin(), figures.end(),
                     [](const PublishedFigure& one) { return one.interval.has_value(); });
}

constexpr double gb = 1e9;

std::string ratio(double value) { return fmt::format("{:.2f}", value); }

TableLine line_of(const PublishedFigure& one) {
  const FigureText text = one.text;
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

/// The case with which a ratio compares, or null: `over` at the same world, or at the only one that
/// it has; of a speed-up at world 1.
const CaseSummary* compared_case(const Published& published, const CaseSummary& one,
                                 const std::vector<CaseSummary>& cases) {
  const std::string& label = published.over.empty() ? one.label() : published.over;
  const bool times = published.measure == Measure::times;
  const CaseSummary* elsewhere = nullptr;
  int others = 0;
  for (const CaseSummary& other : cases) {
    if (other.label() != label || other.plan.purpose != Purpose::asked || (times && &other == &one))
      continue;
    if (other.plan.world == (times ? one.plan.world : 1)) return &other;
    elsewhere = &other;
    ++others;
  }
  return times && others == 1 ? elsewhere : nullptr;
}

/// The samples a second of that case; nothing if its run failed.
std::optional<double> compared_rate(const Published& published, const CaseSummary& one,
                                    const std::vector<CaseSummary>& cases) {
  const CaseSummary* other = compared_case(published, one, cases);
  if (!other || !other->finished()) return {};
  return other->samples_per_s;
}

/// An interval of the step, in milliseconds, turned into one of a figure that grows with the step.
std::optional<Interval> scaled(const std::optional<Interval>& step, double factor) {
  if (!step) return {};
  return Interval{step->low * factor, step->high * factor};
}

/// Gives the figure the value of a run that did not fail.
void put_here(PublishedFigure& figure, const Published& published, const CaseSummary& one,
              const std::vector<CaseSummary>& cases) {
  const MemoryUse held = one.memory.of_worker();
  const auto bytes = [&](MemoryKind kind) { return static_cast<double>(held[kind]); };
  switch (published.measure) {
    case Measure::step_ms:
      figure.here = one.step_ms;
      figure.interval = one.simulated_ms;
      break;
    case Measure::samples_per_s: {
      figure.here = one.samples_per_s;
      const double samples = one.samples_per_s * one.step_ms;
      if (one.simulated_ms)
        figure.interval = {samples / one.simulated_ms->high, samples / one.simulated_ms->low};
      break;
    }
    case Measure::times:
    case Measure::speed_up:
      if (const auto other = compared_rate(published, one, cases))
        figure.here = one.samples_per_s / *other;
      break;
    case Measure::hours:
      figure.here = static_cast<double>(published.samples) / one.samples_per_s / 3600;
      figure.interval = scaled(one.simulated_ms, *figure.here / one.step_ms);
      break;
    case Measure::parameter_gb:
      figure.here = bytes(MemoryKind::parameter) / gb;
      if (one.state_by_formula) figure.formula = one.state_by_formula->parameters / gb;
      break;
    case Measure::state_gb:
      figure.here = (bytes(MemoryKind::parameter) + bytes(MemoryKind::gradient) +
                     bytes(MemoryKind::optimizer)) /
                    gb;
      if (one.state_by_formula) figure.formula = one.state_by_formula->total() / gb;
      break;
    case Measure::peak_gb:
      figure.here = static_cast<double>(held.total()) / gb;
      if (one.state_by_formula) figure.formula = one.state_by_formula->total() / gb;
      break;
  }
}

std::string name_of_figure(const Published& published) {
  const std::string name(name_of(published.measure));
  if (published.over.empty()) return name;
  return published.measure == Measure::times ? fmt::format("{} {}", name, published.over)
                                             : fmt::format("{} over {}", name, published.over);
}

FigureText text_of(Measure measure) {
  if (measure == Measure::step_ms) return milliseconds;
  return measure == Measure::times || measure == Measure::speed_up ? ratio : per_second;
}

/// Whether the figure divides a case by itself, so that it is always 1.
bool is_its_own_base(const Published& published, int world) {
  return published.measure == Measure::speed_up && world == 1 && published.over.empty();
}

PublishedFigure figure_of(const Published& published, const CaseSummary& one,
                          const std::vector<CaseSummary>& cases) {
  PublishedFigure figure{.experiment = one.plan.experiment,
                         .label = one.label(),
                         .world = one.plan.world,
                         .figure = name_of_figure(published),
                         .text = text_of(published.measure),
                         .published = published.value,
                         .fitted = published.fitted,
                         .simulated = one.simulated(),
                         .error = one.runs.error,
                         .contradiction = published.contradiction};
  if (one.simulated()) figure.assumed = {one.plan.cluster->name, one.plan.cluster->assumed};
  if (one.finished()) put_here(figure, published, one, cases);
  return figure;
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

std::vector<PublishedFigure> published_figures(const CaseSummary& one,
                                               const std::vector<CaseSummary>& cases) {
  std::vector<PublishedFigure> figures;
  for (const Published& published : one.plan.listing.published)
    if (!is_its_own_base(published, one.plan.world))
      figures.push_back(figure_of(published, one, cases));
  return figures;
}

std::vector<PublishedFigure> published_figures(const std::vector<CaseSummary>& cases) {
  std::vector<PublishedFigure> figures;
  for (const CaseSummary& one : cases)
    for (PublishedFigure& figure : published_figures(one, cases))
      figures.push_back(std::move(figure));
  return figures;
}

nlohmann::ordered_json to_json(const PublishedFigure& figure) {
  using Json = nlohmann::ordered_json;
  const auto or_null = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json();
  };
  Json out = {{"case", figure.label},
              {"world", figure.world},
              {"figure", figure.figure},
              {"published", figure.published},
              {"simulated", figure.simulated ? or_null(figure.here) : Json()},
              {"measured", figure.simulated ? Json() : or_null(figure.here)},
              {"deviation", or_null(figure.deviation())},
              {"interval", Json()},
              {"formula", or_null(figure.formula)},
              {"fitted", figure.fitted},
              {"contradiction", figure.contradiction}};
  if (figure.interval) out["interval"] = {figure.interval->low, figure.interval->high};
  return out;
}

std::string percent(double share) { return fmt::format("{:+.1f}%", 100 * share); }

std::string deviations_text(const std::vector<PublishedFigure>& figures) {
  std::vector<std::string> experiments;
  for (const PublishedFigure& one : figures)
    if (experiments.empty() || experiments.back() != one.experiment)
      experiments.push_back(one.experiment);
  std::string out;
  for (const std::string& experiment : experiments)
    for (const bool fitted : {false, true})
      if (const auto text = deviations_text(figures, experiment, fitted); !text.empty())
        out += fmt::format("{}, {}.\n", experiment, text);
  return out;
}

std::string assumptions_text(const std::vector<PublishedFigure>& figures) {
  std::vector<AssumedOf> assumed;
  for (const PublishedFigure& one : figures) assumed.push_back(one.assumed);
  return assumed_text(assumed);
}

std::string columns_text(const std::vector<PublishedFigure>& figures) {
  std::string out =
      "deviation: what came out here, divided by the published figure, minus 1. fitted: "
      "something was chosen so that this figure comes out. predicted: all others.\n";
  if (have_intervals(figures))
    out +=
        "interval: where the figure lies as far as the errors that the cluster file states for its "
        "devices, its collectives and its steps allow.\n";
  return out;
}

std::vector<TableLine> published_table(const std::vector<PublishedFigure>& figures) {
  if (figures.empty()) return {};
  std::vector<TableLine> lines = {{"experiment", "case", "world", "figure", "published", "here",
                                   "deviation", "interval", "this is"}};
  for (const PublishedFigure& one : figures) lines.push_back(line_of(one));
  if (!have_intervals(figures))
    for (TableLine& line : lines) line.erase(line.end() - 2);
  return lines;
}

std::string published_note(const std::vector<PublishedFigure>& figures) {
  std::string out = deviations_text(figures) + "\n" + columns_text(figures);
  if (const std::string text = assumptions_text(figures); !text.empty()) out += "\n" + text;
  return out;
}

std::string published_text(const std::vector<PublishedFigure>& figures) {
  if (figures.empty()) return {};
  return text_table(published_table(figures)) + "\n" + published_note(figures);
}

}  // namespace ringside::runner
