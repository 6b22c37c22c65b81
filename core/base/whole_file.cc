#include "core/base/whole_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "core/base/error.h"
#include "core/base/explain.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

constexpr mode_t new_file = 0666;  // of these bits the system clears those in umask
constexpr std::string_view ending = ".part";

/// "NAME.HOST.", the beginning of the names of this host's drafts.
std::string draft_prefix(const fs::path& path) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("{}.{}.", path.filename().string(), host.data());
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

fs::path followed(const fs::path& path) {
  std::error_code error;
  fs::path file = fs::weakly_canonical(path, error);
  return error ? path : file;
}

[[noreturn]] void fail(const fs::path& path, std::string_view what = "cannot be written") {
  const std::string cause = std::strerror(errno);
  throw Error("{}: {}: {}{}", path.string(), what, cause, limit_hint(cause));
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

}  // namespace

WholeFile::WholeFile(const fs::path& path) : path_(followed(path)) {
  const fs::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  file_ = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, new_file);
  if (file_ < 0 && wants_a_name(errno)) {
    remove_abandoned_drafts(path_);
    draft_ = folder / fmt::format("{}{}{}", draft_prefix(path_), getpid(), ending);
    file_ = open(draft_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, new_file);
  }
  if (file_ < 0) fail(path_);
}

WholeFile::~WholeFile() {
  if (file_ < 0) return;
  close(file_);
  if (!draft_.empty()) unlink(draft_.c_str());
}

void WholeFile::write(std::span<const std::byte> bytes, std::size_t offset) {
  if (!write_at(file_, bytes, offset)) fail(path_);
}

void WholeFile::publish() {
  struct stat there {};
  if (stat(path_.c_str(), &there) == 0 && fchmod(file_, there.st_mode & 07777) != 0)
    fail(path_, "cannot be given the permissions of the file that it replaces");
  if (fsync(file_) != 0) fail(path_);
  if (draft_.empty()) give_name();
  if (rename(draft_.c_str(), path_.c_str()) != 0) fail(path_);
  close(file_);
  file_ = -1;
}

/// Only a file with a name can replace another file, so the draft gets a name.
void WholeFile::give_name() {
  const std::string open_file = fmt::format("/proc/self/fd/{}", file_);
  const std::string stem = path_.parent_path() / draft_prefix(path_);
  constexpr int most_tries = 100;
  for (int i = 0; i < most_tries; ++i) {
    const fs::path name = fmt::format("{}{}.{}{}", stem, getpid(), i, ending);
    if (linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      draft_ = name;
      return;
    }
    if (errno != EEXIST) break;
  }
  fail(path_);
}

void write_whole(const fs::path& path, std::string_view content) {
  WholeFile file(path);
  file.write(std::as_bytes(std::span(content)), 0);
  file.publish();
}

void append_to_file(const fs::path& path, std::string_view content) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, new_file);
  if (file < 0) fail(path);
  struct stat there {};
  const bool written =
      fstat(file, &there) == 0 &&
      write_at(file, std::as_bytes(std::span(content)), static_cast<std::size_t>(there.st_size)) &&
      fsync(file) == 0;
  const int cause = errno;
  close(file);
  errno = cause;
  if (!written) fail(path);
}

void remove_abandoned_drafts(const fs::path& path) {
  const fs::path file = followed(path);
  const std::string prefix = draft_prefix(file);
  std::error_code error;
  for (fs::directory_iterator entry(file.has_parent_path() ? file.parent_path() : ".", error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(ending) ||
        name.size() < prefix.size() + ending.size())
      continue;
    std::string_view process = name;
    process.remove_prefix(prefix.size());
    process.remove_suffix(ending.size());
    if (has_ended(process.substr(0, process.find('.')))) unlink(entry->path().c_str());
  }
}

}  // namespace ringside
