// Whether all runs of a comparison read the same data and weights.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/plan/run_plan.h"

namespace ringside {

/// The files that a run reads (its data set and its initial weights), as they stood at one moment.
/// If somebody edits a file while a comparison runs, every later run is another training run.
struct DataState {
  struct File {
    std::string path;  // see utf8_text()
    std::int64_t bytes = 0;
    std::int64_t modified_ns = 0;
    bool operator==(const File&) const = default;
  };
  std::vector<File> files;
};

/// The files of the run as they stand now. Throws Error as reading the data, or an index of
/// weights, would.
DataState data_state(const RunPlan& plan);

/// Throws Error if the data includes the files that a comparison writes into `results`: every run
/// would then change the data of the next.
void check_apart(const DataConfig& config, const std::filesystem::path& results);

/// A file that is new, gone or changed between the two states; empty if no file is.
std::string first_change(const DataState& before, const DataState& after);

nlohmann::json to_json(const DataState& state);
DataState data_state_from_json(const nlohmann::json& in);

}  // namespace ringside
