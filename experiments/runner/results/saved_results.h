// The content of a results folder, for the commands that read one.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/observe/run_record.h"

namespace ringside::runner {

/// The content of the folder of one comparison, as far as it can be read. The comparison may still
/// be running.
struct SavedResults {
  std::filesystem::path folder;
  std::string name;  // the experiment's name; that of the folder if no record can be read
  /// All records that can be read, in the order in which they were made, with those of failed runs
  /// and of attempts that do not count.
  std::vector<RunRecord> rows;
  /// The text of plan.json and of environment.json, each a JSON object; empty if the file is
  /// missing or no JSON object. A folder without plan.json is complete: every record has its run's
  /// plan.
  std::string plan, environment;
  /// The parts that could not be read: one line each, with the file, the line of the file, the
  /// cause and the remedy.
  std::vector<std::string> complaints;
};

/// Reads the folder. A record that cannot be read becomes a complaint, and so do records of another
/// schema, all those of one schema together. A last line that is cut short is no complaint while a
/// comparison holds the folder. Throws Error if there is no such folder, or if the folder has no
/// rows.jsonl.
SavedResults read_results(const std::filesystem::path& folder);

}  // namespace ringside::runner
