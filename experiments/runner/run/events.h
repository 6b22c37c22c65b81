// The progress events of a comparison, as data. Every display and file of progress is made from the
// same events.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/observe/run_record.h"

namespace ringside::runner {

/// The facts about a run of the comparison that displays need.
struct PlannedRun {
  std::string id{}, label{};  // the other events name the id
  Purpose purpose = Purpose::asked;
  int world = 1, repeat = 0;
  int line = 0;  // runs with the same number are repeats of one case (RunPlan::line)
  std::int64_t steps = 0, global_batch = 0;
  bool simulated = false;  // its times are those of a simulated cluster
};
Fields fields_of(PlannedRun& run);
PlannedRun planned_run(const RunPlan& plan);

/// A comparison begins, or goes on. If it goes on, a RunEnded follows for every run that is kept.
struct ComparisonBegan {
  static constexpr std::string_view name = "comparison_began";
  std::string experiment{};
  int most_attempts = 1;           // at a run that other work disturbs
  std::vector<PlannedRun> runs{};  // all runs, in the order in which they are made
};
Fields fields_of(ComparisonBegan& event);

/// A simulation of this machine has predicted a run, which begins next.
struct RunPredicted {
  static constexpr std::string_view name = "run_predicted";
  std::string run{};
  double step_ms = 0;
  std::int64_t memory_peak = 0;  // bytes, of the rank with the largest peak
  std::string error{};           // why there is no prediction; the figures are then 0
};
Fields fields_of(RunPredicted& event);

struct RunBegan {
  static constexpr std::string_view name = "run_began";
  std::string run{};
  int attempt = 1;                       // counted from 1
  std::optional<double> seconds_left{};  // until all runs are done; nothing while that is not known
};
Fields fields_of(RunBegan& event);

/// A step of the present run that all workers have done. Not every step has an event
/// (EventFeed).
struct StepDone {
  static constexpr std::string_view name = "step_done";
  std::string run{};
  std::int64_t step = 0;                  // how many steps are done
  std::optional<double> loss{};           // of the global batch; nothing if it is not computed
  double step_ms = 0;                     // of the slowest worker
  std::optional<double> samples_per_s{};  // of this step
  std::optional<double> seconds_left{};
};
Fields fields_of(StepDone& event);

struct RunEnded {
  static constexpr std::string_view name = "run_ended";
  std::string run{};
  int attempt = 1;
  bool kept = false;        // made before the comparison went on
  bool counts = true;       // in place of the run's earlier attempts
  bool made_again = false;  // since other work disturbed it
  std::string status{};     // as RunRecord::status, and `error` as RunRecord::error
  std::string error{};
  std::string disturbance{};  // what disturbed the run; empty if nothing did
  double samples_per_s = 0, tokens_per_s = 0, step_ms = 0, exposed_ms = 0;  // as in the record
  std::optional<double> loss{}, held_out_loss{};                            // the last ones
  std::int64_t memory_peak = 0;  // bytes, of the rank with the largest peak
  std::optional<double> seconds_left{};
};
Fields fields_of(RunEnded& event);
/// Fills in the fields that follow from the record.
RunEnded run_ended(const RunRecord& row);

/// The end of a comparison.
enum class ComparisonStatus : std::uint8_t {
  ok,           // all runs are made
  failed,       // some runs failed, or the comparison could not go on
  interrupted,  // by the user
  refused       // nothing was made: the input is wrong
};
inline constexpr std::string_view comparison_status_names[] = {"ok", "failed", "interrupted",
                                                               "refused"};
constexpr EnumNames names_of(ComparisonStatus) { return comparison_status_names; }

struct ComparisonEnded {
  static constexpr std::string_view name = "comparison_ended";
  ComparisonStatus status = ComparisonStatus::ok;
  int exit_status = 0;   // of the program, if it makes this comparison alone
  std::string error{};   // why the status is not ok
  std::string folder{};  // of the results; empty if there are none
};
Fields fields_of(ComparisonEnded& event);

struct ProgressEvent {
  double time = 0;  // seconds since the beginning of 1970, UTC
  std::variant<ComparisonBegan, RunPredicted, RunBegan, StepDone, RunEnded, ComparisonEnded> what;
};

/// One line of JSON with its line feed: "event" is the event's name, "time" its time, and the
/// event's fields stand beside them. A number that is not finite is null.
std::string json_line(const ProgressEvent& event);
/// Reads such a line. Returns nothing for an event whose name is not known. Throws Error if the
/// line is no event.
std::optional<ProgressEvent> event_of_line(std::string_view line);

/// A listener of a comparison's events.
class ProgressListener {
 public:
  virtual ~ProgressListener() = default;
  /// Must not block. Throws Error if the listener fails at its purpose; never for a StepDone, where
  /// an error would make the run fail.
  virtual void hear(const ProgressEvent& event) = 0;
};

}  // namespace ringside::runner
