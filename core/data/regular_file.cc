#include "core/data/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

namespace ringside {

namespace fs = std::filesystem;

SampleRange samples_of(std::int64_t whole, Split split, double holdout) {
  if (!(holdout >= 0 && holdout < 1))
    throw Error("data.holdout = {} is out of range; it has to be in [0, 1)", holdout);
  const auto held_out = static_cast<std::int64_t>(std::floor(static_cast<double>(whole) * holdout));
  if (split == Split::training) return {0, whole - held_out};
  return {whole - held_out, held_out};
}

RegularFile::RegularFile(fs::path path, std::string_view setting)
    : path_(std::move(path)),
      setting_(setting),
      // Without O_NONBLOCK, opening a pipe would wait for its other end.
      descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  const auto fail = [&](std::string_view cause) {
    close();
    throw Error("{}: {} cannot be read: {}", setting_, path_.string(), cause);
  };
  if (descriptor_ < 0 || ::fstat(descriptor_, &status_) != 0) fail(std::strerror(errno));
  if (S_ISDIR(status_.st_mode)) fail("it is a folder");
  if (!S_ISREG(status_.st_mode)) fail("it is a pipe or a device; name a file");
}

RegularFile::~RegularFile() { close(); }

RegularFile::RegularFile(RegularFile&& other) noexcept
    : path_(std::move(other.path_)),
      setting_(other.setting_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      status_(other.status_) {}

void RegularFile::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

void RegularFile::read(std::size_t offset, std::span<std::byte> out) const {
  if (descriptor_ < 0) {
    const RegularFile again(path_, setting_);
    check_unchanged(again.descriptor_);
    return again.read(offset, out);
  }
  while (!out.empty()) {
    const ssize_t count = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw Error("{}: {} cannot be read: {}", setting_, path_.string(), std::strerror(errno));
    if (count == 0) break;  // the file is shorter than when it was opened
    offset += static_cast<std::size_t>(count);
    out = out.subspan(static_cast<std::size_t>(count));
  }
  check_unchanged();
  if (!out.empty())
    throw Error("{}: {} has {} bytes, but reading it ended at byte {}", setting_, path_.string(),
                size(), offset);
}

void RegularFile::check_unchanged() const { check_unchanged(descriptor_); }

void RegularFile::check_unchanged(int descriptor) const {
  struct stat now {};
  const bool same = ::fstat(descriptor, &now) == 0 && now.st_size == status_.st_size &&
                    now.st_mtim.tv_sec == status_.st_mtim.tv_sec &&
                    now.st_mtim.tv_nsec == status_.st_mtim.tv_nsec;
  if (!same)
    throw Error("{}: {} changed while it was in use; name a file that stays as it is", setting_,
                path_.string());
}

Error bad_file(const fs::path& path, std::size_t offset, const std::string& what,
               std::string_view remedy) {
  return Error("data.path: {}: at byte {}: {}; {}", path.string(), offset, what, remedy);
}

bool is_folder(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw Error("data.path: {} does not exist", path);
  return fs::is_directory(status);
}

}  // namespace ringside
