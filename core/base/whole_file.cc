#include "core/base/whole_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "core/base/error.h"
#include "core/base/error_text.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

constexpr mode_t new_file = 0666;  // of these bits the system clears those in umask
constexpr std::string_view ending = ".part";
/// Writes past the cache are made of so many bytes at least: of fewer, the disk is slower than a
/// copy.
constexpr std::size_t least_uncached = std::size_t{1} << 20;

/// "NAME.HOST.", the beginning of the names of this host's drafts.
std::string draft_prefix(const std::string& name) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("{}.{}.", name, host.data());
}

bool has_ended(std::string_view process) {
  pid_t id = 0;
  const auto [end, error] = std::from_chars(process.begin(), process.end(), id);
  if (error != std::errc() || end != process.end() || id <= 0) return false;
  return kill(id, 0) != 0 && errno == ESRCH;
}

/// Whether open() failed with `cause` because the folder's file system has no nameless files, so
/// that the draft needs a name.
bool wants_a_name(int cause) {
  return cause == EOPNOTSUPP || cause == EISDIR || cause == ENOENT || cause == EINVAL;
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

/// `cause` is an error of the system.
[[noreturn]] void refuse(const fs::path& path, std::string_view what, int cause) {
  const std::string text = std::strerror(cause);
  throw Error("{}: {}: {}{}", path.string(), what, text, limit_hint(text));
}

int open_folder(const fs::path& path) {
  return open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
}

fs::path present_path(int folder) {
  std::error_code error;
  return fs::read_symlink(fmt::format("/proc/self/fd/{}", folder), error);
}

bool is_removed(int folder) {
  struct stat here {};
  return fstat(folder, &here) != 0 || here.st_nlink == 0 ||
         present_path(folder).string().ends_with(" (deleted)");
}

/// As refuse(), for a file in a folder that may have been removed.
[[noreturn]] void refuse(const OpenFolder& folder, const fs::path& path, std::string_view what,
                         int cause) {
  if (folder.descriptor() >= 0 && is_removed(folder.descriptor()))
    throw Error("{}: {}: its folder has been removed", path.string(), what);
  refuse(path, what, cause);
}

/// Writes all bytes; returns false, with the cause in errno, if the system refuses.
bool write_at(int file, std::span<const std::byte> bytes, std::size_t offset) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::size_t>(count);
  }
  return true;
}

/// Writes whole blocks past the system's cache of files. Returns how many bytes it has written: 0
/// if the bytes do not lie as the system wants them, or if it refuses, also for want of room.
std::size_t write_uncached(int file, std::span<const std::byte> bytes, std::size_t offset) {
  const std::size_t size = bytes.size() / uncached_block * uncached_block;
  if (size < least_uncached || offset % uncached_block != 0 ||
      reinterpret_cast<std::uintptr_t>(bytes.data()) % uncached_block != 0)
    return 0;
  const int flags = fcntl(file, F_GETFL);
  if (flags < 0 || fcntl(file, F_SETFL, flags | O_DIRECT) != 0) return 0;
  const bool written = write_at(file, bytes.first(size), offset);
  fcntl(file, F_SETFL, flags);
  return written ? size : 0;
}

/// Removes the drafts of a file in an open folder.
void remove_abandoned(int folder, const std::string& name) {
  const std::string prefix = draft_prefix(name);
  std::error_code error;
  const std::string opened = fmt::format("/proc/self/fd/{}", folder);
  for (fs::directory_iterator entry(opened, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string draft = entry->path().filename().string();
    if (!draft.starts_with(prefix) || !draft.ends_with(ending) ||
        draft.size() < prefix.size() + ending.size())
      continue;
    std::string_view process = draft;
    process.remove_prefix(prefix.size());
    process.remove_suffix(ending.size());
    if (has_ended(process.substr(0, process.find('.')))) unlinkat(folder, draft.c_str(), 0);
  }
}

}  // namespace

OpenFolder::OpenFolder(fs::path path) : path_(std::move(path)), folder_(open_folder(path_)) {
  if (folder_ < 0) refuse(path_, "cannot be opened", errno);
}

OpenFolder::~OpenFolder() {
  if (folder_ >= 0) close(folder_);
}

OpenFolder::OpenFolder(const OpenFolder& other)
    : path_(other.path_), folder_(fcntl(other.folder_, F_DUPFD_CLOEXEC, 0)) {
  if (folder_ < 0) refuse(path_, "cannot be opened", errno);
}

OpenFolder OpenFolder::inside(const std::string& name) const {
  constexpr mode_t new_folder = 0777;  // of these bits the system clears those in umask
  const fs::path path = path_ / name;
  if (mkdirat(folder_, name.c_str(), new_folder) != 0 && errno != EEXIST)
    refuse(*this, path, "cannot be made", errno);
  const int opened = openat(folder_, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (opened < 0 && errno == ENOTDIR)
    throw Error("{}: this is no folder, and links are not followed; remove it", path.string());
  if (opened < 0) refuse(*this, path, "cannot be opened", errno);
  return {path, opened};
}

bool OpenFolder::contains(const std::string& name) const {
  struct stat there {};
  return fstatat(folder_, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0;
}

std::string OpenFolder::gone() const {
  if (is_removed(folder_)) return "has been removed";
  struct stat here {
  }, there{};
  if (fstat(folder_, &here) == 0 && stat(path_.c_str(), &there) == 0 &&
      here.st_dev == there.st_dev && here.st_ino == there.st_ino)
    return {};
  return "has been renamed to " + present_path(folder_).string();
}

WholeFile::WholeFile(const fs::path& path)
    : path_(path),
      folder_(folder_of(path), open_folder(folder_of(path))),
      name_(path.filename().string()) {
  if (folder_.descriptor() < 0) fail();
  struct stat there {};
  if (fstatat(folder_.descriptor(), name_.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
      !S_ISREG(there.st_mode))
    throw Error("{}: {}; name another file", path_.string(),
                S_ISLNK(there.st_mode) ? "this is a link, and nothing is written through links"
                                       : "this exists, but is no file");
  begin();
}

WholeFile::WholeFile(const OpenFolder& folder, const std::string& name)
    : path_(folder.path() / name), folder_(folder), name_(name) {
  begin();
}

void WholeFile::begin() {
  file_ = openat(folder_.descriptor(), ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, new_file);
  if (file_ < 0 && wants_a_name(errno)) {
    remove_abandoned(folder_.descriptor(), name_);
    draft_ = fmt::format("{}{}{}", draft_prefix(name_), getpid(), ending);
    file_ = openat(folder_.descriptor(), draft_.c_str(),
                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, new_file);
  }
  if (file_ < 0) fail();
}

WholeFile::~WholeFile() {
  if (file_ < 0) return;
  close(file_);
  if (!draft_.empty()) unlinkat(folder_.descriptor(), draft_.c_str(), 0);
}

void WholeFile::fail(std::string_view what) const { refuse(folder_, path_, what, errno); }

void WholeFile::write(std::span<const std::byte> bytes, std::size_t offset) {
  const std::size_t done = write_uncached(file_, bytes, offset);
  if (!write_at(file_, bytes.subspan(done), offset + done)) fail();
}

void WholeFile::publish() {
  if (fsync(file_) != 0) fail();
  publish_unsynced();
}

void WholeFile::publish_unsynced() {
  constexpr mode_t permissions = 0777;
  struct stat there {};
  if (fstatat(folder_.descriptor(), name_.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISREG(there.st_mode) && there.st_uid == geteuid() &&
      fchmod(file_, there.st_mode & permissions) != 0)
    fail("cannot be given the permissions of the file that it replaces");
  if (draft_.empty()) give_name();
  if (renameat(folder_.descriptor(), draft_.c_str(), folder_.descriptor(), name_.c_str()) != 0)
    fail();
  close(file_);
  file_ = -1;
}

/// Only a file with a name can replace another file, so the draft gets a name.
void WholeFile::give_name() {
  const std::string open_file = fmt::format("/proc/self/fd/{}", file_);
  constexpr int most_tries = 100;
  for (int i = 0; i < most_tries; ++i) {
    const std::string name = fmt::format("{}{}.{}{}", draft_prefix(name_), getpid(), i, ending);
    if (linkat(AT_FDCWD, open_file.c_str(), folder_.descriptor(), name.c_str(),
               AT_SYMLINK_FOLLOW) == 0) {
      draft_ = name;
      return;
    }
    if (errno != EEXIST) break;
  }
  fail();
}

namespace {

void write_all(WholeFile& file, std::string_view content) {
  file.write(std::as_bytes(std::span(content)), 0);
  file.publish();
}

}  // namespace

void write_whole(const fs::path& path, std::string_view content) {
  WholeFile file(path);
  write_all(file, content);
}

void write_whole(const OpenFolder& folder, const std::string& name, std::string_view content) {
  WholeFile file(folder, name);
  write_all(file, content);
}

int open_to_grow(const OpenFolder& folder, const std::string& name) {
  // Without O_NONBLOCK the system would wait for a reader of a named pipe.
  const int file = openat(folder.descriptor(), name.c_str(),
                          O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, new_file);
  const int cause = errno;
  const fs::path path = folder.path() / name;
  struct stat there {};
  if (file >= 0 && fstat(file, &there) == 0 && S_ISREG(there.st_mode)) return file;
  if (file >= 0) close(file);
  if (file >= 0 || cause == ELOOP)
    throw Error("{}: this is no file, and links are not followed; remove it", path.string());
  refuse(folder, path, "cannot be written", cause);
}

void append_to_file(const OpenFolder& folder, const std::string& name, std::string_view content) {
  const int file = open_to_grow(folder, name);
  struct stat there {};
  const bool written =
      fstat(file, &there) == 0 &&
      write_at(file, std::as_bytes(std::span(content)), static_cast<std::size_t>(there.st_size)) &&
      fsync(file) == 0;
  const int cause = errno;
  close(file);
  if (!written) refuse(folder, folder.path() / name, "cannot be written", cause);
}

void remove_abandoned_drafts(const fs::path& path) {
  const int folder = open_folder(folder_of(path));
  if (folder < 0) return;
  remove_abandoned(folder, path.filename().string());
  close(folder);
}

}  // namespace ringside
