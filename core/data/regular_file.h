// Files that data sets read, and the split of their samples into training and held-out ones.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace ringside {

enum class Split : std::uint8_t { training, held_out };

/// Samples [begin, begin + size) of a list.
struct SampleRange {
  std::int64_t begin = 0, size = 0;
};

/// Splits a list of `whole` samples: the last `holdout` share is held out, the rest is for
/// training. Throws Error if `holdout` is not in [0, 1).
SampleRange samples_of(std::int64_t whole, Split split, double holdout);

/// A file on a disk that is read. The file must not change while this object exists.
class RegularFile {
 public:
  /// Opens the file without blocking. Throws Error if the path cannot be read or is a pipe, device,
  /// socket or folder. Messages begin with `setting`, the name of the setting that the path comes
  /// from.
  explicit RegularFile(std::filesystem::path path, std::string_view setting = "data.path");
  ~RegularFile();
  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string_view setting() const { return setting_; }
  std::size_t size() const { return static_cast<std::size_t>(status_.st_size); }
  int descriptor() const { return descriptor_; }
  /// Fills `out` with the bytes from `offset` on, all within size(). Safe to call from several
  /// threads. Throws Error as check_unchanged() does.
  void read(std::size_t offset, std::span<std::byte> out) const;
  /// Throws Error if the file's size or time of modification has changed since it was opened.
  void check_unchanged() const;
  /// Gives the descriptor back; each later read opens the file anew.
  void close();

 private:
  void check_unchanged(int descriptor) const;

  std::filesystem::path path_;
  std::string_view setting_;  // views a string literal
  int descriptor_ = -1;
  struct stat status_ {};
};

/// Makes an Error that names the file, the byte offset, what is wrong and what to do.
Error bad_file(const std::filesystem::path& path, std::size_t offset, const std::string& what,
               std::string_view remedy = "fetch or make the file again");

/// Whether the path is a folder. Throws Error if the path does not exist.
bool is_folder(const std::string& path);

}  // namespace ringside
