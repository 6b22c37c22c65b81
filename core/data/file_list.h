// The files that a data set is made of, and those that it leaves out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/fields.h"

namespace ringside {

/// Entries of a folder that are no part of the data, all for the same reason.
struct LeftOut {
  std::string why;
  std::int64_t files = 0, bytes = 0;
  std::string first;  // one of them, relative to the folder
  bool operator==(const LeftOut&) const = default;
};
Fields fields_of(LeftOut& left_out);

/// The files of a data set. If `held_out` is empty, the held-out samples are the last share
/// (data.holdout) of the training files.
struct DataFiles {
  std::vector<std::filesystem::path> training, held_out;
  std::vector<LeftOut> left_out{};
  std::string note{};  // what the names of files in a folder decided; empty: nothing
};

/// The files for training, then those that are held out.
std::vector<std::filesystem::path> all_of(const DataFiles& files);

/// Adds an entry of `folder` to those that `files` leaves out.
void leave_out(DataFiles& files, const std::string& why, const std::filesystem::path& folder,
               const std::filesystem::path& entry);
/// Adds the entries of `folder` that `files` does not name.
void leave_out_others(DataFiles& files, const std::filesystem::path& folder);

/// "left out: link: 2 (first: a/b); a ZIP archive: 1 (2.1 kB, c.zip)"; empty if nothing is left
/// out.
std::string text_of(const std::vector<LeftOut>& left_out);
/// A number of bytes with its unit: "2.1 kB".
std::string text_of_bytes(std::int64_t bytes);

}  // namespace ringside
