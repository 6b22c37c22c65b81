// Text data sets whose tokens are bytes.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "core/data/dataset.h"
#include "core/data/regular_file.h"

namespace ringside {

/// Windows of `context` bytes into the files, which are read as one sequence: sample i starts at
/// byte i of its split. Inputs are bytes [i, i + context) as int32 [context]; targets are the bytes
/// that follow each of them (int32 [context]), or only the last one (int32 [1]). The last `holdout`
/// share of the bytes is the held-out split. Throws Error when a split is too short for one window.
std::unique_ptr<Dataset> text_dataset(const std::vector<std::filesystem::path>& files,
                                      std::int64_t context, Task task, Split split, double holdout);

}  // namespace ringside
