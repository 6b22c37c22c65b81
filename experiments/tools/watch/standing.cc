#include "experiments/tools/watch/standing.h"

#include <algorithm>

#include "core/observe/run_record_parts.h"

namespace ringside::tools::watch {
namespace {

template <class Counts>
int count(const std::vector<RunStanding>& runs, Counts counts) {
  return static_cast<int>(std::count_if(runs.begin(), runs.end(), counts));
}

bool has_failed(const RunStanding& run) { return run.attempt && run.attempt->status != "ok"; }

}  // namespace

int CaseStanding::done() const {
  return count(runs, [](const RunStanding& run) { return run.done; });
}

int CaseStanding::failed() const { return count(runs, has_failed); }

int CaseStanding::disturbed() const {
  return count(runs, [](const RunStanding& run) {
    return run.attempt && run.attempt->status == "ok" && !run.attempt->disturbance.empty();
  });
}

std::optional<runner::RunEnded> CaseStanding::median() const {
  std::vector<runner::RunEnded> good;
  for (const RunStanding& run : runs)
    if (run.attempt && run.attempt->status == "ok") good.push_back(*run.attempt);
  if (good.empty()) return {};
  runner::RunEnded out = good.back();  // its losses
  for (double runner::RunEnded::*figure :
       {&runner::RunEnded::samples_per_s, &runner::RunEnded::tokens_per_s,
        &runner::RunEnded::step_ms, &runner::RunEnded::exposed_ms}) {
    std::vector<double> values;
    for (const runner::RunEnded& one : good) values.push_back(one.*figure);
    out.*figure = quantiles(std::move(values)).median;
  }
  for (const runner::RunEnded& one : good)
    out.memory_peak = std::max(out.memory_peak, one.memory_peak);
  return out;
}

void Standing::hear(const runner::ProgressEvent& event) {
  newest_ = event.time;
  ++heard_;
  std::visit([this](const auto& what) { take(what); }, event.what);
}

std::optional<RunPlace> Standing::place_of(const std::string& run) const {
  const auto found = places_.find(run);
  return found == places_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<RunPlace> Standing::told_of(const std::string& run) {
  const auto place = place_of(run);
  if (place) cases_[place->line].heard = heard_;
  return place;
}

void Standing::take(const runner::ComparisonBegan& event) {
  const std::int64_t heard = heard_;
  const double newest = newest_;
  *this = Standing();
  heard_ = heard;
  newest_ = newest;
  began_ = event;
  std::map<int, std::vector<RunStanding>> lines;
  for (const runner::PlannedRun& run : event.runs) lines[run.line].push_back({run});
  for (auto& [line, runs] : lines) {
    for (std::size_t i = 0; i < runs.size(); ++i) places_[runs[i].plan.id] = {cases_.size(), i};
    cases_.push_back({std::move(runs)});
  }
}

void Standing::take(const runner::RunPredicted& event) {
  if (const auto place = told_of(event.run)) cases_[place->line].predicted = event;
}

void Standing::take(const runner::RunBegan& event) {
  const auto place = told_of(event.run);
  if (!place) return;
  present_ = {*place, event.attempt};
  seconds_left_ = event.seconds_left;
}

void Standing::take(const runner::StepDone& event) {
  const auto place = told_of(event.run);
  if (!place) return;
  cases_[place->line].step = event;
  seconds_left_ = event.seconds_left;
}

void Standing::take(const runner::RunEnded& event) {
  const auto place = told_of(event.run);
  if (!place) return;
  CaseStanding& of_run = cases_[place->line];
  RunStanding& run = of_run.runs[place->run];
  run.done = !event.made_again;
  if (event.counts) run.attempt = event;
  of_run.step.reset();
  present_.reset();
  if (event.kept) return;
  if (event.status != "ok") ++failures_;
  seconds_left_ = event.seconds_left;
}

void Standing::take(const runner::ComparisonEnded& event) {
  end_ = event;
  for (CaseStanding& one : cases_) one.step.reset();
  present_.reset();
  seconds_left_.reset();
}

int Standing::planned() const { return static_cast<int>(places_.size()); }

int Standing::done() const {
  int out = 0;
  for (const CaseStanding& one : cases_) out += one.done();
  return out;
}

int Standing::failed() const {
  int out = 0;
  for (const CaseStanding& one : cases_) out += one.failed();
  return out;
}

std::optional<double> Standing::seconds_left(double time) const {
  if (!seconds_left_) return {};
  return std::max(0.0, *seconds_left_ - std::max(0.0, time - newest_));
}

}  // namespace ringside::tools::watch
