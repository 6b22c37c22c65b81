// A digest of a file's content.
#pragma once

#include <filesystem>
#include <string>

namespace ringside::runner {

/// Files of more bytes than this are read in part. With it a comparison begins without delay on
/// data of any size.
inline constexpr std::int64_t whole_file_bytes = std::int64_t{128} << 20;

/// A digest of the file's size and bytes; of a file of more than whole_file_bytes, of 64 pieces of
/// 1 MiB at equal distances, among them the first and the last. Throws Error if the file cannot be
/// read.
std::string content_digest(const std::filesystem::path& path);

}  // namespace ringside::runner
