// The files of a text data set.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/data/file_list.h"

namespace ringside {

/// Lists the text files that `paths` stand for, all for training. A path to a file stands for that
/// file, which gzip may have compressed. A path to a folder stands for all such files below it that
/// are text, sorted by path; links, hidden folders and folders named build* or results are left
/// out. No text is what has a NUL byte or begins like another format (core/data/file_format.h),
/// except a page of HTML whose name says so. Throws Error if a path does not exist, cannot be read
/// or holds no text. What is compressed or named is judged by its beginning alone: the data set's
/// check() looks through the rest.
DataFiles text_files(const std::vector<std::string>& paths);

/// Whether a folder of this name is skipped when it lies below a path.
bool is_left_out(const std::filesystem::path& folder);

/// Throws Error for a NUL byte among these bytes of a text; `name` is that of the text, and
/// `offset` is that of the first byte.
void refuse_nul(const std::string& name, std::size_t offset, std::span<const std::byte> bytes);

}  // namespace ringside
