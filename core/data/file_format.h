// Formats of files that are often given by mistake.
//
// A download may be an archive, a page that reports an error, or a pointer of Git LFS. Its first
// bytes tell, whatever its name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/data/regular_file.h"

namespace ringside {

enum class FileFormat : std::uint8_t {
  other,  // what the file is meant to be, as far as its beginning tells
  gzip,
  bzip2,
  xz,
  zstandard,
  zip,
  torch_checkpoint,  // as torch.save() writes it: a ZIP archive of pickled objects
  tar,
  pdf,
  parquet,
  utf16,
  html,
  lfs_pointer
};

/// The number of bytes that format_of() needs of a file that has so many.
inline constexpr std::size_t format_bytes = 1024;

/// The format of a file that begins with these bytes. UTF-16 is told by its byte order mark.
FileFormat format_of(std::span<const std::byte> beginning);
FileFormat format_of(const RegularFile& file);

/// The description of a file of this format, after "is": "a ZIP archive".
std::string_view description(FileFormat format);

/// The remedy for such a file: "unpack it: unzip data.zip".
std::string remedy(FileFormat format, const std::filesystem::path& path);

/// Makes an Error that says what the file is and how to get at what it stands for.
Error other_format(const RegularFile& file, FileFormat format);
/// The same of a file that unpacks to this format.
Error other_format_in_gzip(const RegularFile& file, FileFormat format);

/// Throws this Error if the file's format is not FileFormat::other.
void refuse_other_formats(const RegularFile& file);

}  // namespace ringside
