// The folder of one comparison's results.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/observe/row.h"
#include "experiments/results/data_state.h"

namespace ringside {

/// results/NAME with plan.json, environment.json, rows.jsonl, summary.json, summary.md and traces/
/// in it; other files of the folder are left alone, and so are earlier comparisons in before-N.
/// Held by one process at a time (a lock on the folder itself, which ends with the process).
class ResultsFolder {
 public:
  /// Makes the folder if need be. Throws Error if it cannot be written, is held by another
  /// comparison, or has files with the names of a comparison's that are none.
  explicit ResultsFolder(std::filesystem::path folder);
  ~ResultsFolder();
  ResultsFolder(const ResultsFolder&) = delete;
  ResultsFolder& operator=(const ResultsFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }

  /// The rows that are there, without those of failed runs and a last line that was cut short.
  /// Throws Error that names the line for anything else that is no row.
  std::vector<Row> read_rows() const;
  /// What the runs that are there read; nothing if that is not known. Throws Error for a plan.json
  /// that no comparison wrote.
  std::optional<DataState> read_data_state() const;
  /// environment.json; nothing if it is not there or cannot be read.
  std::optional<nlohmann::json> read_environment() const;
  /// Begins with these rows, `plan` (plan.json) and `environment`. If there are none, what an
  /// earlier comparison left moves to a folder of its own in here, before-1, before-2 and so on,
  /// whose path is returned (empty: there was no row).
  std::filesystem::path start(const std::vector<Row>& rows, const std::string& plan,
                              const std::string& environment);
  /// Adds one whole line; it is on the disk when this returns.
  void append(const Row& row);
  /// Writes a file at once or not at all; `name` may lie in a folder that is not there yet.
  void write(const std::string& name, const std::string& content);

 private:
  void check_ours() const;
  std::filesystem::path move_aside();

  std::filesystem::path folder_;
  int lock_ = -1;
};

/// What plan.json holds.
nlohmann::json plan_json(const std::vector<RunPlan>& runs, const DataState& data);

/// Throws Error that names the first difference if the rows that are there were not made by the
/// same experiment as the runs: equal runs have equal plans, and other runs differ in scheme,
/// options, world and what follows from them alone.
void check_same_experiment(const std::vector<Row>& rows, const std::vector<RunPlan>& runs);

/// Gives kept rows the lines that their cases have in the tables of `runs`; cases that `runs` do
/// not have come after all others, in their old order.
void take_lines(std::vector<Row>& rows, const std::vector<RunPlan>& runs);

}  // namespace ringside
