// Files that are there either whole or not at all, and files that grow.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace ringside {

/// A file while it is written. A file that had the name before stays until publish(); without
/// publish() nothing is left. The draft has no name if the file system allows that (O_TMPFILE), so
/// that not even SIGKILL leaves a draft behind. Otherwise the draft lies beside the file as
/// NAME.HOST.PID.part, and the next writer of the same file removes the drafts whose processes ran
/// on this host and have ended. To be used by one thread. If the system refuses, every call throws
/// Error with the file's name and the system's cause.
class WholeFile {
 public:
  /// `path` may be a link: the file to which the link leads is replaced.
  explicit WholeFile(const std::filesystem::path& path);
  /// Drops the draft, unless it has been published.
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Blocks while it writes `bytes` at `offset`. The calls may write the parts of the file in any
  /// order.
  void write(std::span<const std::byte> bytes, std::size_t offset);
  /// Gives the draft the file's name and, if it replaces a file, that file's mode. Blocks until
  /// everything is on the disk.
  void publish();

 private:
  void give_name();

  std::filesystem::path path_;
  std::filesystem::path draft_;  // empty while the draft has no name
  int file_ = -1;
};

/// Writes a whole file; blocks until it is on the disk.
void write_whole(const std::filesystem::path& path, std::string_view content);

/// Adds `content` to the end of a file, which need not be there yet; blocks until everything is on
/// the disk. For one writer at a time. If the system refuses, throws Error with the file's name and
/// the cause; a part of `content` may then be in the file.
void append_to_file(const std::filesystem::path& path, std::string_view content);

/// Removes the drafts of `path` whose processes ran on this host and have ended.
void remove_abandoned_drafts(const std::filesystem::path& path);

}  // namespace ringside
