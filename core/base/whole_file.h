// Files that are there whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace ringside {

/// A file on its way: what had its name stays until publish(), and without that nothing is left.
/// The draft has no name where the file system can do without (O_TMPFILE), so that not even SIGKILL
/// leaves it behind; elsewhere it lies beside the file as NAME.HOST.PID.part, and the next writer
/// of the same file removes those of processes of this host that have ended. For one thread. Every
/// call throws Error with the file's name and the system's cause.
class WholeFile {
 public:
  /// `path` may be a link: the file that it leads to is replaced.
  explicit WholeFile(const std::filesystem::path& path);
  /// Drops the draft, unless it was published.
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Bytes may come in any order; blocks.
  void write(std::span<const std::byte> bytes, std::size_t offset);
  /// Gives the draft the name and, where it replaces a file, that one's mode. Blocks until all is
  /// on the disk.
  void publish();

 private:
  [[noreturn]] void fail(std::string_view what) const;
  void give_name();

  std::filesystem::path path_;
  std::filesystem::path draft_;  // empty while the draft has no name
  int file_ = -1;
};

/// Writes a whole file; blocks until it is on the disk.
void write_whole(const std::filesystem::path& path, std::string_view content);

/// Removes the drafts of `path` that processes of this host left behind.
void remove_abandoned_drafts(const std::filesystem::path& path);

}  // namespace ringside
