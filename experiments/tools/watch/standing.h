// The progress of a comparison, accumulated from its events.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/runner/run/events.h"

namespace ringside::tools::watch {

struct RunStanding {
  runner::PlannedRun plan;
  bool done = false;                          // has ended, and is not made again
  std::optional<runner::RunEnded> attempt{};  // the one that counts so far
};

/// One case, that is one line of the comparison's tables.
struct CaseStanding {
  std::vector<RunStanding> runs;           // in the order in which they are made; not empty
  std::optional<runner::StepDone> step{};  // the newest one, while a run of the case is being made
  std::optional<runner::RunPredicted> predicted{};
  std::int64_t heard = 0;  // number of the newest event of the case; 0: none yet

  const runner::PlannedRun& plan() const { return runs.front().plan; }
  int done() const;
  int failed() const;
  int disturbed() const;  // runs whose attempts were all disturbed so far
  /// Figures of the runs that have ended well and count: medians, and the largest memory peak.
  /// Nothing if there is no such run.
  std::optional<runner::RunEnded> median() const;
};

/// The position of a run: cases()[line].runs[run].
struct RunPlace {
  std::size_t line = 0, run = 0;
};

/// The run that is being made.
struct PresentRun {
  RunPlace place;
  int attempt = 1;
};

class Standing {
 public:
  /// Events of runs that the comparison has not planned are left out.
  void hear(const runner::ProgressEvent& event);

  /// Whether a comparison has begun; before that all other members are empty.
  bool began() const { return began_.has_value(); }
  const runner::ComparisonBegan& comparison() const { return *began_; }
  /// In the order of the tables.
  const std::vector<CaseStanding>& cases() const { return cases_; }
  const std::optional<PresentRun>& present() const { return present_; }
  const std::optional<runner::ComparisonEnded>& end() const { return end_; }
  /// None if the run was not planned.
  std::optional<RunPlace> place_of(const std::string& run) const;
  int planned() const;
  int done() const;
  int failed() const;
  int failures() const { return failures_; }  // attempts that failed since the comparison began
  double newest() const { return newest_; }   // time of the newest event
  /// The seconds until all runs are done, estimated at `time`; nothing while that is not known.
  std::optional<double> seconds_left(double time) const;

 private:
  /// The place of the run of the newest event.
  std::optional<RunPlace> told_of(const std::string& run);
  void take(const runner::ComparisonBegan& event);
  void take(const runner::RunPredicted& event);
  void take(const runner::RunBegan& event);
  void take(const runner::StepDone& event);
  void take(const runner::RunEnded& event);
  void take(const runner::ComparisonEnded& event);

  std::optional<runner::ComparisonBegan> began_;
  std::vector<CaseStanding> cases_;
  std::map<std::string, RunPlace> places_;  // of all runs, by id
  std::optional<PresentRun> present_;
  std::optional<runner::ComparisonEnded> end_;
  std::optional<double> seconds_left_;
  int failures_ = 0;
  std::int64_t heard_ = 0;
  double newest_ = 0;
};

}  // namespace ringside::tools::watch
