// The data, weights and code that a comparison reads, and how they have changed since.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/data/file_list.h"
#include "core/plan/run_plan.h"

namespace ringside::runner {

/// The files that runs read (data sets, initial weights, and code of the user's own in another
/// program), in their state at one moment. If a file is edited while a comparison runs, its later
/// runs are not comparable with its earlier ones.
struct DataState {
  struct File {
    std::string path;    // as utf8_text() returns it
    std::string source;  // the data set, the weights or the code that it belongs to
    std::int64_t bytes = 0;
    std::int64_t modified_ns = 0;
    std::string digest{};  // of its content (content_digest.h); empty: not taken
    bool operator==(const File&) const = default;
  };
  /// A data set: the files in it and in the folders that it was made of.
  struct Source {
    std::string source;
    std::int64_t files = 0, bytes = 0;                    // all that are read
    std::int64_t held_out_files = 0, held_out_bytes = 0;  // those among them that no step trains on
    std::string note;                                     // DataFiles::note
    std::vector<LeftOut> left_out;
  };
  std::vector<File> files;
  std::vector<Source> sources;
};

/// Whether the digests of files are taken, for which the files are read.
enum class Digests : std::uint8_t { none, taken };

/// The files of the run as they stand now. Throws Error if files of the data set are missing or the
/// index of the weights is wrong.
DataState data_state(const RunPlan& plan);
/// The files of all the runs; those of data that several runs read stand there once.
DataState data_state(const std::vector<RunPlan>& plans, Digests digests = Digests::none);

/// The files in `all` that belong to the data, the weights and the code of this run.
DataState part_of(const DataState& all, const RunPlan& plan);

/// Throws Error if the data includes the files that a comparison writes into `results`: every run
/// would then change the data of the next.
void check_apart(const DataConfig& config, const std::filesystem::path& results);

/// The path of a file that was added or removed, or whose size or time stamp changed, between the
/// two states; empty if there is no such file. Data and weights that are in only one of the two
/// states do not count.
std::string first_change(const DataState& before, const DataState& after);
/// The same of a file whose content changed. A file that has no digest in one of the states, which
/// an older program wrote, is judged by its time stamp.
std::string first_other_content(const DataState& before, const DataState& after);

/// A line about each data set: the numbers of files and bytes that are read, held out, and left
/// out, with the reason. No line about a data set of a single file of which nothing is held out or
/// left out.
std::vector<std::string> lines_about(const DataState& state);

Fields fields_of(DataState::File& file);
Fields fields_of(DataState::Source& source);

/// JSON lists of the files and of the data sets.
nlohmann::ordered_json files_to_json(const DataState& state);
nlohmann::ordered_json sources_to_json(const DataState& state);
/// The state that has the files of such a list, and no data sets.
DataState data_state_from_json(const nlohmann::json& in);

}  // namespace ringside::runner
