// Text as bytes.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "core/data/dataset.h"
#include "core/data/files.h"

namespace ringside {

/// Lists the text files that `paths` stand for. A path to a file stands for that file. A path to a
/// folder stands for all regular files below it that contain no NUL byte, sorted by path; hidden
/// folders and folders named build* or results are skipped. Throws Error if a path does not exist,
/// cannot be read or holds no text.
std::vector<std::filesystem::path> text_files(const std::vector<std::string>& paths);

/// Whether a folder of this name is skipped when it lies below a path.
bool is_left_out(const std::filesystem::path& folder);

/// Windows of `context` bytes into the files, which are read as one sequence: sample i starts at
/// byte i of its split. Inputs are bytes [i, i + context) as int32 [context]; targets are the bytes
/// that follow each of them (int32 [context]), or only the last one (int32 [1]). The last `holdout`
/// share of the bytes is the held-out split. Throws Error when a split is too short for one window.
std::unique_ptr<Dataset> text_dataset(const std::vector<std::filesystem::path>& files,
                                      std::int64_t context, Task task, Split split, double holdout);

}  // namespace ringside
