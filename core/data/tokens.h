// Token files of llm.c.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/data/dataset.h"
#include "core/data/regular_file.h"

namespace ringside {

/// Windows of `context` tokens into the files, which are read as one sequence: sample i starts at
/// token i of its split (int32 [context]). Targets are as in text_dataset(). A file has a header of
/// 256 int32 (magic 20240520, version 1, number of tokens, then zeros) and tokens as uint16, or
/// magic 20240801, version 7 and tokens as uint32; all little-endian. The last `holdout` share of
/// the tokens is the held-out split. Throws Error that names file and offset for a wrong magic,
/// version or size, and for a split that is too short. check() reads every token once, as fast as
/// the disk or memory gives them, unless the tokens have 16 bits and every 16-bit number is in the
/// vocabulary.
std::unique_ptr<Dataset> token_dataset(const std::vector<std::filesystem::path>& files,
                                       std::int64_t context, std::int64_t vocabulary, Task task,
                                       Split split, double holdout);

}  // namespace ringside
