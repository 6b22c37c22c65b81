#include "core/data/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

namespace ringside {

namespace fs = std::filesystem;

Part part_of(std::int64_t whole, Split split, double holdout) {
  if (!(holdout >= 0 && holdout < 1))
    throw Error("data.holdout = {} is out of range; it has to be in [0, 1)", holdout);
  const auto held_out = static_cast<std::int64_t>(std::floor(static_cast<double>(whole) * holdout));
  if (split == Split::training) return {0, whole - held_out};
  return {whole - held_out, held_out};
}

MappedFile::MappedFile(const fs::path& path, std::string_view setting) : path_(path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const auto fail = [&](int cause) {
    if (file >= 0) ::close(file);
    throw Error("{}: {} cannot be read: {}", setting, path.string(), std::strerror(cause));
  };
  struct stat status {};
  if (file < 0 || ::fstat(file, &status) != 0) fail(errno);
  if (S_ISDIR(status.st_mode)) fail(EISDIR);
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ > 0) {
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0);
    if (address == MAP_FAILED) fail(errno);
    data_ = static_cast<const std::byte*>(address);
  }
  ::close(file);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

void FileRow::append(MappedFile file, std::int64_t items, std::size_t header) {
  ends_.push_back(this->items() + items);
  headers_.push_back(header);
  files_.push_back(std::move(file));
}

FileRow::Place FileRow::find(std::int64_t item) const {
  const auto file =
      static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), item) - ends_.begin());
  return {file, item - (file == 0 ? 0 : ends_[file - 1]), ends_[file] - item};
}

Error bad_file(const fs::path& path, std::size_t offset, const std::string& what,
               std::string_view remedy) {
  return Error("data.path: {}: at byte {}: {}; {}", path.string(), offset, what, remedy);
}

void refuse_compressed(const MappedFile& file) {
  const auto bytes = file.bytes();
  if (bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b})
    throw bad_file(file.path(), 0, "the file is compressed",
                   fmt::format("unpack it: gunzip -k {}", file.path().string()));
}

bool is_folder(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw Error("data.path: {} does not exist", path);
  return fs::is_directory(status);
}

}  // namespace ringside
