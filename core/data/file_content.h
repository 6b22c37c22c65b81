// The content of data files, read from the disk or, if gzip has compressed them, unpacked in
// memory.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/data/gzip.h"
#include "core/data/regular_file.h"

namespace ringside {

/// The bytes that one process may unpack a file to: half of the memory that is available on this
/// machine, or of what the process's control group allows.
std::size_t most_unpacked();

/// One file. It must not change while this object exists.
class FileContent {
 public:
  /// The file as it lies on the disk.
  explicit FileContent(RegularFile file) : file_(std::move(file)) {}
  /// The file, unpacked if gzip has compressed it. Throws Error as unpack() does.
  static FileContent unpacked(RegularFile file, std::size_t most = most_unpacked());

  const std::filesystem::path& path() const { return file_.path(); }
  /// For messages about bytes of the file's content.
  std::string name() const { return path().string() + (bytes_ ? ", unpacked" : ""); }
  std::size_t size() const { return bytes_ ? bytes_->size() : file_.size(); }
  /// Fills `out` with the bytes of the content from `offset` on, all within size(). Safe to call
  /// from several threads. Throws Error as RegularFile::read() does.
  void read(std::size_t offset, std::span<std::byte> out) const;
  /// Gives the descriptor back; each later read opens a file anew that is not in memory.
  void close() { file_.close(); }
  /// The bytes of memory that the content takes.
  std::size_t memory() const { return bytes_ ? bytes_->size() : 0; }

 private:
  RegularFile file_;
  std::optional<UnpackedBytes> bytes_;
};

/// Several files read as one list of items; each file holds a contiguous range of them.
class FileRow {
 public:
  /// Adds a file that holds `items` items after a header of `header` bytes.
  void append(FileContent file, std::int64_t items, std::size_t header);
  std::int64_t items() const { return ends_.empty() ? 0 : ends_.back(); }

  struct Position {
    std::size_t file;
    std::int64_t item;  // within the file
    std::int64_t left;  // items of the file from `item` on
  };
  /// Finds the item with this number, which must be below items().
  Position find(std::int64_t item) const;

  std::size_t files() const { return files_.size(); }
  const FileContent& file(std::size_t file) const { return files_[file]; }
  /// Fills `out` with bytes of a file's items; `offset` counts from the end of the file's header.
  void read(std::size_t file, std::size_t offset, std::span<std::byte> out) const {
    files_[file].read(headers_[file] + offset, out);
  }
  /// The bytes of memory that files take.
  std::size_t memory() const;

 private:
  std::vector<FileContent> files_;
  std::vector<std::size_t> headers_;
  std::vector<std::int64_t> ends_;  // for each file, the number of items up to its end
};

}  // namespace ringside
