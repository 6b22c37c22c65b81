#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/error.h"
#include "core/interchange/safetensors.h"

namespace ringside {
namespace {

static_assert(std::endian::native == std::endian::little);

std::size_t size_of(const SafetensorsWriter::Tensor& tensor) {
  std::size_t bytes = tensor.element_bytes;
  for (const std::int64_t extent : tensor.extents) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, std::vector<Tensor> tensors)
    : path_(std::move(path)),
      temporary_(path_.string() + fmt::format(".{}.part", getpid())),
      tensors_(std::move(tensors)),
      offsets_(tensors_.size()),
      written_(tensors_.size()) {
  // Large elements first: then all are aligned.
  std::vector<std::size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return tensors_[a].element_bytes > tensors_[b].element_bytes;
  });
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  std::size_t end = 0;
  for (const std::size_t i : order) {
    const Tensor& tensor = tensors_[i];
    offsets_[i] = end;
    end += size_of(tensor);
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.extents}, {"data_offsets", {offsets_[i], end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const auto length = static_cast<std::uint64_t>(text.size());
  for (std::size_t& offset : offsets_) offset += sizeof length + text.size();

  file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) throw Error("{}: {}", temporary_.string(), std::strerror(errno));
  try {
    put(std::as_bytes(std::span(&length, 1)), 0);
    put(std::as_bytes(std::span(text)), sizeof length);
  } catch (...) {
    discard();
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() { discard(); }

void SafetensorsWriter::discard() {
  if (file_ < 0) return;
  close(file_);
  unlink(temporary_.c_str());
  file_ = -1;
}

void SafetensorsWriter::put(std::span<const std::byte> bytes, std::size_t offset) const {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error("{}: {}", temporary_.string(), std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::size_t>(count);
  }
}

void SafetensorsWriter::write(std::size_t index, std::span<const std::byte> bytes) {
  const Tensor& tensor = tensors_.at(index);
  if (bytes.size() != size_of(tensor))
    throw Error("{}: {} has {} bytes, not {}", path_.string(), tensor.name, size_of(tensor),
                bytes.size());
  put(bytes, offsets_[index]);
  written_[index] = true;
}

void SafetensorsWriter::finish() {
  const auto missing = std::find(written_.begin(), written_.end(), false);
  if (missing != written_.end())
    throw Error("{}: {} was not written", path_.string(),
                tensors_[static_cast<std::size_t>(missing - written_.begin())].name);
  if (fsync(file_) != 0) throw Error("{}: {}", temporary_.string(), std::strerror(errno));
  if (rename(temporary_.c_str(), path_.c_str()) != 0)
    throw Error("{}: {}", path_.string(), std::strerror(errno));
  close(file_);
  file_ = -1;
}

}  // namespace ringside
