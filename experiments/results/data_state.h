// Whether all runs of a comparison read the same data and weights.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/plan/run_plan.h"

namespace ringside {

/// The files that runs read (data sets and initial weights), as they stood at one moment.
/// If somebody edits a file while a comparison runs, its later runs are not comparable with its
/// earlier ones.
struct DataState {
  struct File {
    std::string path;    // as utf8_text() returns it
    std::string source;  // the data set or the weights that it belongs to
    std::int64_t bytes = 0;
    std::int64_t modified_ns = 0;
    bool operator==(const File&) const = default;
  };
  std::vector<File> files;
};

/// The files of the run as they stand now. Throws Error if files of the data set are missing or the
/// index of the weights is wrong.
DataState data_state(const RunPlan& plan);
/// The files of all the runs; those of data that several runs read stand there once.
DataState data_state(const std::vector<RunPlan>& plans);

/// The files in `all` that belong to the data and the weights of this run.
DataState part_of(const DataState& all, const RunPlan& plan);

/// Throws Error if the data includes the files that a comparison writes into `results`: every run
/// would then change the data of the next.
void check_apart(const DataConfig& config, const std::filesystem::path& results);

/// The path of a file that was added, removed or changed between the two states; empty if there is
/// no such file. Data and weights that only one of the two states knows are left alone.
std::string first_change(const DataState& before, const DataState& after);

Fields fields_of(DataState::File& file);

/// A JSON list of the files.
nlohmann::ordered_json to_json(const DataState& state);
DataState data_state_from_json(const nlohmann::json& in);

}  // namespace ringside
