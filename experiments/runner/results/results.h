// The results folder of one comparison.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/whole_file.h"
#include "core/observe/run_record.h"
#include "core/plan/measured_speeds.h"
#include "experiments/runner/results/data_state.h"
#include "experiments/runner/results/folder_lock.h"

namespace ringside::runner {

/// The folder results/NAME with plan.json, environment.json, rows.jsonl, summary.json, summary.md,
/// progress.jsonl, metrics.prom, traces/ and collectives/. Other files in the folder are left
/// alone, and so are the folders before-N, which hold earlier comparisons. One process at a time
/// holds the folder (FolderLock). Its owner may be another user: nothing is written through a link
/// in it.
class ResultsFolder {
 public:
  /// The names of the file of events (experiments/runner/run/events.h), which a comparison that
  /// goes on adds to, and of the file for scrapers of metrics.
  static constexpr const char *events_file = "progress.jsonl", *metrics_file = "metrics.prom";

  /// Makes the folder if it does not exist. Throws Error if the folder cannot be written, is a link
  /// of another user, another comparison holds it, or files in it have the names of a comparison's
  /// files but were not written by one.
  explicit ResultsFolder(std::filesystem::path folder);

  const std::filesystem::path& path() const { return folder_; }
  /// The open folder, for the files of listeners.
  const OpenFolder& files() const { return *files_; }

  /// The records in rows.jsonl, without those of failed runs and without a last line that was cut
  /// short. Throws Error that names the line if another line is not a record.
  std::vector<RunRecord> read_rows() const;
  /// The data that the runs in the folder read; nothing if that is not known. Throws Error if
  /// plan.json was not written by a comparison.
  std::optional<DataState> read_data_state() const;
  /// The speeds of workers that the comparison in the folder measured. Throws Error if they cannot
  /// be used.
  std::vector<MeasuredSpeeds> read_speeds() const;
  /// The content of environment.json; nothing if the file is missing or cannot be read.
  std::optional<nlohmann::json> read_environment() const;
  /// Writes plan.json (`plan`), environment.json (`environment`) and the rows with which the
  /// comparison begins. If `rows` is empty, the results of an earlier comparison move to a new
  /// folder in this one (before-1, before-2 and so on), whose path is returned; the path is empty
  /// if there were no earlier rows.
  std::filesystem::path start(const std::vector<RunRecord>& rows, const std::string& plan,
                              const std::string& environment);
  /// Adds one whole line to rows.jsonl, after start(); blocks until it is on the disk. Throws Error
  /// if the file has been removed.
  void append(const RunRecord& row);
  /// Writes the whole file or nothing. `name` is relative to the folder, or to a folder in it,
  /// which is made if it is not there.
  void write(const std::string& name, const std::string& content);
  /// Throws Error if the folder has been removed or renamed, or lacks a file that start() wrote.
  void check_there() const;

 private:
  void check_ours() const;
  std::filesystem::path move_aside();

  std::filesystem::path folder_;
  std::optional<OpenFolder> files_;
  FolderLock lock_;
};

/// The content of plan.json. `speeds` are those from which shares of the runs follow.
nlohmann::json plan_json(const std::vector<RunPlan>& runs, const DataState& data,
                         const std::vector<MeasuredSpeeds>& speeds = {});

/// Throws Error that names the first difference if the records `rows` were not made by the same
/// experiment as `runs`. Runs with the same id must have equal plans; all others may differ only in
/// scheme, options, world, settings of their cases and of the sweep, and values that follow from
/// these. Records and runs must both have seeds of compare.seeds, or neither; the seeds of the
/// records must all be asked for.
void check_same_experiment(const std::vector<RunRecord>& rows, const std::vector<RunPlan>& runs);

/// Sets the line of each record in tables (RunPlan::line) to that of its case among `runs`. Records
/// of cases that are not among `runs` come after all others, in their old order.
void take_lines(std::vector<RunRecord>& rows, const std::vector<RunPlan>& runs);

}  // namespace ringside::runner
