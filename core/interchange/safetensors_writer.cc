#include <algorithm>
#include <bit>
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

struct Offsets {
  std::vector<std::size_t> order;    // of the tensors in the file
  std::vector<std::size_t> offsets;  // by tensor, from the end of the header
};

/// Tensors with large elements come first, so that all tensors are aligned.
Offsets offsets_of(const std::vector<SafetensorsWriter::Tensor>& tensors) {
  Offsets out{std::vector<std::size_t>(tensors.size()), std::vector<std::size_t>(tensors.size())};
  std::iota(out.order.begin(), out.order.end(), std::size_t{0});
  std::stable_sort(out.order.begin(), out.order.end(), [&](std::size_t a, std::size_t b) {
    return tensors[a].element_bytes > tensors[b].element_bytes;
  });
  std::size_t end = 0;
  for (const std::size_t i : out.order) {
    out.offsets[i] = end;
    end += size_of(tensors[i]);
  }
  return out;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<Tensor> tensors,
                                     const Metadata& metadata)
    : file_(path), name_(path.string()) {
  put(begin(std::move(tensors), metadata), 0);
}

SafetensorsWriter::SafetensorsWriter(std::vector<std::byte>& bytes, std::vector<Tensor> tensors,
                                     const Metadata& metadata)
    : memory_(&bytes), name_("safetensors") {
  const std::vector<std::byte> header = begin(std::move(tensors), metadata);
  std::size_t end = header.size();
  for (const Tensor& tensor : tensors_) end += size_of(tensor);
  bytes.resize(end);
  put(header, 0);
}

std::vector<std::byte> SafetensorsWriter::header(const std::vector<Tensor>& tensors,
                                                 const Metadata& metadata) {
  const Offsets places = offsets_of(tensors);
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  for (const auto& [name, value] : metadata) header["__metadata__"][name] = value;
  for (const std::size_t i : places.order) {
    const Tensor& tensor = tensors[i];
    const std::size_t offset = places.offsets[i];
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.extents},
                           {"data_offsets", {offset, offset + size_of(tensor)}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const auto length = static_cast<std::uint64_t>(text.size());
  std::vector<std::byte> out(sizeof length + text.size());
  std::memcpy(out.data(), &length, sizeof length);
  std::memcpy(out.data() + sizeof length, text.data(), text.size());
  return out;
}

std::vector<std::byte> SafetensorsWriter::begin(std::vector<Tensor> tensors,
                                                const Metadata& metadata) {
  tensors_ = std::move(tensors);
  written_.resize(tensors_.size());
  offsets_ = offsets_of(tensors_).offsets;
  std::vector<std::byte> out = header(tensors_, metadata);
  for (std::size_t& offset : offsets_) offset += out.size();
  return out;
}

void SafetensorsWriter::put(std::span<const std::byte> bytes, std::size_t offset) {
  if (file_)
    file_->write(bytes, offset);
  else if (!bytes.empty())
    std::memcpy(memory_->data() + offset, bytes.data(), bytes.size());
}

void SafetensorsWriter::write(std::size_t index, std::span<const std::byte> bytes) {
  const Tensor& tensor = tensors_.at(index);
  if (bytes.size() != size_of(tensor))
    throw Error("{}: tensor {} has {} bytes, but {} bytes were given for it", name_, tensor.name,
                size_of(tensor), bytes.size());
  put(bytes, offsets_[index]);
  written_[index] = true;
}

void SafetensorsWriter::finish() {
  const auto missing = std::find(written_.begin(), written_.end(), false);
  if (missing != written_.end())
    throw Error("{}: {} was not written", name_,
                tensors_[static_cast<std::size_t>(missing - written_.begin())].name);
  if (file_) file_->publish();
}

}  // namespace ringside
