// Files that are written whole or not at all, and files that grow. No file is written through a
// link.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace ringside {

/// A folder that is held open, for files whose names the program chooses. Files are written into
/// the folder itself, even if it was renamed, and never through a link in the folder, because its
/// owner may be another user.
class OpenFolder {
 public:
  /// Links in `path` are followed. Throws Error with the system's cause if there is no such folder.
  explicit OpenFolder(std::filesystem::path path);
  ~OpenFolder();
  OpenFolder(const OpenFolder& other);
  OpenFolder& operator=(const OpenFolder&) = delete;

  /// A folder in this one, which is made if it is not there. Throws Error if something else has the
  /// name, such as a link.
  OpenFolder inside(const std::string& name) const;
  /// The folder as it was named.
  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return folder_; }
  bool contains(const std::string& name) const;
  /// The reason why path() now leads elsewhere: "has been renamed to ..." or "has been removed";
  /// empty if it leads here.
  std::string gone() const;

 private:
  friend class WholeFile;
  OpenFolder(std::filesystem::path path, int folder) : path_(std::move(path)), folder_(folder) {}

  std::filesystem::path path_;
  int folder_ = -1;
};

/// Bytes of a block of WholeFile::write().
inline constexpr std::size_t uncached_block = 4096;

/// A file while it is written. A file that had the name before stays until publish(); without
/// publish() nothing is left. The draft has no name if the file system allows that (O_TMPFILE), so
/// that not even SIGKILL leaves a draft behind. Otherwise the draft lies beside the file as
/// NAME.HOST.PID.part, and the next writer of the same file removes the drafts whose processes ran
/// on this host and have ended. To be used by one thread. If the system refuses, every call throws
/// Error with the file's name and the system's cause.
class WholeFile {
 public:
  /// A file that a user has named. Throws Error for a name of a link, of a device or of anything
  /// else that is no file.
  explicit WholeFile(const std::filesystem::path& path);
  /// A file that the program has named; takes the place of a link with that name.
  WholeFile(const OpenFolder& folder, const std::string& name);
  /// Drops the draft, unless it has been published.
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Blocks while it writes `bytes` at `offset`. The calls may write the parts of the file in any
  /// order. Of a MiB and more, whole blocks that lie at multiples of uncached_block in memory and
  /// in the file go to the disk directly, where the file system can (O_DIRECT): that saves a copy
  /// and the system's memory, which others have more use for.
  void write(std::span<const std::byte> bytes, std::size_t offset);
  /// Gives the draft the file's name and, if it replaces a file of this user, that file's mode.
  /// Blocks until everything is on the disk.
  void publish();
  /// The same without waiting for the disk: after a crash of the system the file may be empty.
  void publish_unsynced();

 private:
  void begin();
  void give_name();
  [[noreturn]] void fail(std::string_view what = "cannot be written") const;

  std::filesystem::path path_;  // for errors
  OpenFolder folder_;
  std::string name_;
  std::string draft_{};  // empty while the draft has no name
  int file_ = -1;
};

/// Writes a whole file that a user has named; blocks until it is on the disk.
void write_whole(const std::filesystem::path& path, std::string_view content);
/// Writes a whole file that the program has named; blocks until it is on the disk.
void write_whole(const OpenFolder& folder, const std::string& name, std::string_view content);

/// Opens a file to read it and to add to its end; makes it if it is not there. Throws Error for a
/// link, and for anything else that is no file. The caller owns the descriptor.
int open_to_grow(const OpenFolder& folder, const std::string& name);

/// Adds `content` to the end of a file, which need not be there yet; blocks until everything is on
/// the disk. For one writer at a time. If the system refuses, throws Error with the file's name and
/// the cause; a part of `content` may then be in the file.
void append_to_file(const OpenFolder& folder, const std::string& name, std::string_view content);

/// Removes the drafts of `path` whose processes ran on this host and have ended.
void remove_abandoned_drafts(const std::filesystem::path& path);

}  // namespace ringside
