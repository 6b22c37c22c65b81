// What data sets of files have in common.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace ringside {

enum class Split : std::uint8_t { training, held_out };

/// What a data set is made of. Without files of their own, held-out samples are the last share
/// (data.holdout) of the others.
struct DataFiles {
  std::vector<std::filesystem::path> training, held_out;
};

/// Samples [begin, begin + size) of a whole.
struct Part {
  std::int64_t begin = 0, size = 0;
};

/// The last `holdout` share of a whole is held out. Throws Error if `holdout` is not in [0, 1).
Part part_of(std::int64_t whole, Split split, double holdout);

/// A whole file, mapped into memory, read-only. An empty file has no bytes.
class MappedFile {
 public:
  /// Throws Error if it cannot be read, under the name of the setting that the path comes from.
  explicit MappedFile(const std::filesystem::path& path, std::string_view setting = "data.path");
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Several files as one list: each holds some of the items, in order.
class FileRow {
 public:
  /// `items` that the file holds, and the bytes in front of them.
  void append(MappedFile file, std::int64_t items, std::size_t header);
  std::int64_t items() const { return ends_.empty() ? 0 : ends_.back(); }

  struct Place {
    std::size_t file;
    std::int64_t item;  // within the file
    std::int64_t left;  // items of the file from there on
  };
  /// Where an item below items() lies.
  Place find(std::int64_t item) const;

  std::size_t files() const { return files_.size(); }
  const MappedFile& file(std::size_t i) const { return files_[i]; }
  /// The items' bytes.
  std::span<const std::byte> payload(std::size_t i) const {
    return files_[i].bytes().subspan(headers_[i]);
  }
  std::size_t header(std::size_t i) const { return headers_[i]; }

 private:
  std::vector<MappedFile> files_;
  std::vector<std::size_t> headers_;
  std::vector<std::int64_t> ends_;  // of each file, in the items of all
};

/// An Error that names the file, where in it, what is wrong and what to do.
Error bad_file(const std::filesystem::path& path, std::size_t offset, const std::string& what,
               std::string_view remedy = "fetch or make the file again");

/// Throws Error for a file that gzip has compressed.
void refuse_compressed(const MappedFile& file);

/// Throws Error for a path that does not exist; whether it is a folder.
bool is_folder(const std::string& path);

}  // namespace ringside
