#include "core/data/file_content.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <numeric>

#include "core/base/processor.h"
#include "core/data/file_format.h"

namespace ringside {
namespace {

/// Bytes that can be had without swapping; 0 if the system does not say.
std::int64_t available_memory() {
  std::ifstream in("/proc/meminfo");
  for (std::string key, rest; in >> key; std::getline(in, rest)) {
    std::int64_t kilobytes = 0;
    if (key == "MemAvailable:" && in >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

}  // namespace

std::size_t most_unpacked() {
  std::int64_t bytes = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t known : {available_memory(), allowed_memory()})
    if (known > 0) bytes = std::min(bytes, known);
  return static_cast<std::size_t>(bytes / 2);
}

FileContent FileContent::unpacked(RegularFile file, std::size_t most) {
  const bool compressed = format_of(file) == FileFormat::gzip;
  FileContent out(std::move(file));
  if (!compressed) return out;
  out.bytes_ = unpack(out.file_, most);
  out.close();
  return out;
}

void FileContent::read(std::size_t offset, std::span<std::byte> out) const {
  if (bytes_)
    bytes_->read(offset, out);
  else
    file_.read(offset, out);
}

void FileRow::append(FileContent file, std::int64_t items, std::size_t header) {
  // A process may have at most some 1000 files open, and each of its ranks may read several
  // FileRows. So only the first files of a FileRow stay open.
  constexpr std::size_t most_open = 64;
  if (files_.size() >= most_open) file.close();
  ends_.push_back(this->items() + items);
  headers_.push_back(header);
  files_.push_back(std::move(file));
}

FileRow::Position FileRow::find(std::int64_t item) const {
  const auto file =
      static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), item) - ends_.begin());
  return {file, item - (file == 0 ? 0 : ends_[file - 1]), ends_[file] - item};
}

std::size_t FileRow::memory() const {
  return std::accumulate(
      files_.begin(), files_.end(), std::size_t{0},
      [](std::size_t sum, const FileContent& file) { return sum + file.memory(); });
}

}  // namespace ringside
