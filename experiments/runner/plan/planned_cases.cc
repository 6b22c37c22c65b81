#include "experiments/runner/plan/planned_cases.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "experiments/runner/config/cases.h"
#include "experiments/runner/plan/checks.h"
#include "experiments/runner/plan/labels.h"

namespace ringside::runner {
namespace {

std::vector<int> worlds_of(const SchemeInfo& row, const std::vector<std::int64_t>& asked) {
  std::vector<int> worlds;
  for (const std::int64_t world : asked)
    if (row.max_world == 0 || world <= row.max_world) worlds.push_back(static_cast<int>(world));
  if (worlds.empty()) worlds.push_back(row.max_world);
  return worlds;
}

/// The worlds that a case names itself.
std::vector<int> worlds_of_case(const SchemeInfo& row, const CaseConfig& one) {
  check_worlds(fmt::format("{}: worlds", one.place), one.worlds);
  for (const std::int64_t world : one.worlds)
    if (row.max_world > 0 && world > row.max_world)
      throw Error("{}: scheme {} runs at world {} at most, not at {}", one.place, row.name,
                  row.max_world, world);
  return {one.worlds.begin(), one.worlds.end()};
}

bool gives(const CaseFigures& published, Measure measure) {
  return !published.figures[static_cast<std::size_t>(measure)].empty();
}

/// Throws Error for keys that have a meaning only together.
void check_together(const CaseConfig& one) {
  const CaseFigures& published = one.published;
  const bool times = gives(published, Measure::times);
  if (times && published.over.empty())
    throw Error("{}: published_times needs over, the label of the case that it compares with",
                one.place);
  if (!published.over.empty() && !times && !gives(published, Measure::speed_up))
    throw Error(
        "{}: over = '{}' is for published_times and published_speed_up; leave it out, or give one "
        "of them",
        one.place, published.over);
  if (published.samples < 0 || (published.samples > 0) != gives(published, Measure::hours))
    throw Error("{}: published_hours and samples (at least 1) are given together or not at all",
                one.place);
}

/// The published figures of a case, by world.
std::map<int, std::vector<Published>> published_of(const CaseConfig& one,
                                                   const std::vector<int>& worlds) {
  const CaseFigures& published = one.published;
  check_together(one);
  std::map<int, std::vector<Published>> out;
  for (std::size_t m = 0; m < measures; ++m) {
    const std::vector<double>& figures = published.figures[m];
    if (figures.empty()) continue;
    const auto measure = static_cast<Measure>(m);
    if (figures.size() != worlds.size())
      throw Error("{}: {} has {} figures for {} worlds; give one for each of worlds = [{}]",
                  one.place, published_key(measure), figures.size(), worlds.size(),
                  fmt::join(worlds, ", "));
    const bool ratio = measure == Measure::times || measure == Measure::speed_up;
    for (std::size_t i = 0; i < worlds.size(); ++i) {
      out[worlds[i]].push_back({.measure = measure,
                                .value = figures[i],
                                .over = ratio ? published.over : "",
                                .samples = measure == Measure::hours ? published.samples : 0,
                                .contradiction = published.contradiction});
    }
  }
  if (out.empty() && !published.contradiction.empty())
    throw Error("{}: contradiction says why published figures cannot be right, and none are given",
                one.place);
  for (const std::int64_t world : published.fitted) {
    const auto fitted = out.find(static_cast<int>(world));
    if (fitted == out.end())
      throw Error("{}: fitted names world {}, of which no figure is published; leave it out",
                  one.place, world);
    for (Published& figure : fitted->second) figure.fitted = true;
  }
  return out;
}

/// A case before the sweep.
struct Start {
  PlannedCase line;
  std::vector<Assignment> set;
};

/// The worlds of the other cases with this label.
std::set<int> worlds_labelled(const std::vector<Start>& starts, const Start& start,
                              const std::string& label) {
  std::set<int> worlds;
  for (const Start& other : starts)
    if (&other != &start && other.line.label == label)
      worlds.insert(other.line.worlds.begin(), other.line.worlds.end());
  return worlds;
}

/// Throws Error if the figure of `start` at `world` compares with a run that the experiment does
/// not have.
void check_compared(const std::vector<Start>& starts, const Start& start, int world,
                    const Published& figure) {
  const bool times = figure.measure == Measure::times;
  if (!times && figure.measure != Measure::speed_up) return;
  if (figure.over.empty()) {
    const std::vector<int>& worlds = start.line.worlds;
    if (std::find(worlds.begin(), worlds.end(), 1) != worlds.end()) return;
    throw Error(
        "{}: published_speed_up is over world 1, which is not among the case's worlds; add it, or "
        "name with over a case that runs there",
        start.line.place);
  }
  const std::set<int> worlds = worlds_labelled(starts, start, figure.over);
  const int at = times ? world : 1;
  if (!worlds.contains(at) && !(times && worlds.size() == 1))
    throw Error("{}: over = '{}' names no other case with this label at world {}{}",
                start.line.place, figure.over, at, times ? ", nor at one world alone" : "");
}

void check_compared(const std::vector<Start>& starts) {
  for (const Start& start : starts)
    for (const auto& [world, figures] : start.line.published)
      for (const Published& figure : figures) check_compared(starts, start, world, figure);
}

std::vector<Start> starts_of(const Experiment& experiment) {
  const CompareConfig& compare = experiment.common.compare;
  std::vector<Start> starts;
  const auto add = [&](const SchemeInfo& row, std::vector<int> worlds) -> Start& {
    Start& start = starts.emplace_back();
    start.line.scheme = &row;
    start.line.worlds = std::move(worlds);
    return start;
  };
  for (const std::string& scheme : compare.schemes) {
    const SchemeInfo& row = scheme_to_run(scheme);
    add(row, worlds_of(row, compare.worlds));
  }
  for (const CaseConfig& one : experiment.cases) {
    const SchemeInfo& row = scheme_to_run(one.scheme);
    Start& start =
        add(row, one.worlds.empty() ? worlds_of(row, compare.worlds) : worlds_of_case(row, one));
    start.line.label = one.label;
    start.line.published = published_of(one, start.line.worlds);
    if (!start.line.published.empty() && !experiment.sweep.empty())
      throw Error("{}: published figures are those of one run; leave out compare.sweep", one.place);
    start.line.place = one.place;
    start.set = one.set;
  }
  check_compared(starts);
  return starts;
}

void check_number(const std::vector<Start>& starts, const Experiment& experiment) {
  if (experiment.sweep.empty() && experiment.cases.empty()) return;
  constexpr std::int64_t countable = 1'000'000'000;
  std::int64_t lines = 0;
  for (const Start& start : starts)
    lines += count_points(experiment.sweep, start.line.scheme->name, countable) *
             static_cast<std::int64_t>(start.line.worlds.size());
  if (lines > most_cases)
    throw Error(
        "the comparison would have {} lines{}, more than {}; shorten the lists of compare.sweep, "
        "or compare fewer schemes, cases or worlds",
        std::min(lines, countable), lines > countable ? " and more" : "", most_cases);
}

}  // namespace

std::vector<PlannedCase> cases_of(const Experiment& experiment) {
  const std::vector<Start> starts = starts_of(experiment);
  check_number(starts, experiment);
  std::vector<PlannedCase> lines;
  for (const auto& [start, set] : starts)
    for (const auto& point : points_of(experiment.sweep, start.scheme->name)) {
      PlannedCase& line = lines.emplace_back(start);
      line.set = settings_of(set);
      line.swept = settings_of(point);
      std::erase_if(line.set, [&](const Setting& one) {
        return std::any_of(line.swept.begin(), line.swept.end(),
                           [&](const Setting& swept) { return swept.key == one.key; });
      });
      const std::string place = line.place.empty() ? experiment.common.name : line.place;
      line.config = bind_line(experiment.common, set, point, place);
    }
  return lines;
}

void name_run(RunPlan& plan, const PlannedCase& line) {
  plan.listing.set = line.set;
  plan.listing.swept = line.swept;
  if (const auto found = line.published.find(plan.world); found != line.published.end())
    plan.listing.published = found->second;
  // "single x2" says how many replicas there are.
  std::vector<Setting> shown = line.set;
  std::erase_if(shown, [](const Setting& one) { return one.key == "scheme.single.replicas"; });
  plan.listing.family = line.label.empty() ? label_with(plan.listing.label, shown) : line.label;
  if (line.label.empty()) {
    shown.insert(shown.end(), line.swept.begin(), line.swept.end());
    plan.listing.label = label_with(plan.listing.label, shown);
  } else {
    plan.listing.label = label_with(line.label, line.swept);
  }
}

std::string describe(const PlannedCase& line) {
  std::vector<Setting> settings = line.set;
  settings.insert(settings.end(), line.swept.begin(), line.swept.end());
  if (line.place.empty() && settings.empty()) return {};
  const std::string place = line.place.empty() ? "" : line.place + ": ";
  return fmt::format("{}case '{}': ", place,
                     line.label.empty() ? label_with(std::string(line.scheme->name), settings)
                                        : label_with(line.label, line.swept));
}

}  // namespace ringside::runner
