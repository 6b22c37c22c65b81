#include "ps/protocol/archive.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cereal/cereal.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <cstring>

#include "core/base/error.h"

namespace ringside::ps {
namespace {

static_assert(std::endian::native == std::endian::little, "headers are little-endian");

constexpr std::uint32_t magic = 0x31535052;  // "RPS1"
constexpr std::int64_t max_elements = std::int64_t{1} << 40;
constexpr std::size_t max_text = 1024;
constexpr std::size_t dtypes = 6;

class Writer : public cereal::OutputArchive<Writer> {
 public:
  Writer() : OutputArchive(this) {}
  void put(const void* data, std::size_t size) {
    const std::size_t end = bytes_.size();
    bytes_.resize(end + size);
    if (size > 0) std::memcpy(bytes_.data() + end, data, size);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads from a span, and never past the span's end.
class Reader : public cereal::InputArchive<Reader> {
 public:
  explicit Reader(std::span<const std::byte> bytes) : InputArchive(this), bytes_(bytes) {}
  void get(void* data, std::size_t size) {
    if (size > bytes_.size())
      throw Unreadable("message header: the next value has {} bytes, but only {} are left", size,
                       bytes_.size());
    if (size > 0) std::memcpy(data, bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
  }
  std::size_t left() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

// Cereal's own code for vectors and strings calls these functions; it finds them by
// argument-dependent look-up.

template <class T>
concept Number = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

template <Number T>
void save(Writer& out, const T& value) {
  out.put(&value, sizeof value);
}
template <Number T>
void load(Reader& in, T& value) {
  in.get(&value, sizeof value);
}

template <class T>
requires std::is_same_v<T, bool>
void save(Writer& out, const T& value) { save(out, static_cast<std::uint8_t>(value)); }
template <class T>
requires std::is_same_v<T, bool>
void load(Reader& in, T& value) {
  std::uint8_t byte = 0;
  load(in, byte);
  if (byte > 1) throw Unreadable("message header: {} is not a boolean", byte);
  value = byte == 1;
}

template <class T>
void save(Writer& out, const cereal::SizeTag<T>& tag) {
  save(out, static_cast<std::uint32_t>(tag.size));
}
/// An element has at least one byte, so the number of bytes left bounds the allocation.
template <class T>
void load(Reader& in, cereal::SizeTag<T>& tag) {
  std::uint32_t size = 0;
  load(in, size);
  if (size > in.left())
    throw Unreadable("message header: a size is {}, but only {} bytes are left", size, in.left());
  tag.size = size;
}

template <class T>
void save(Writer& out, const cereal::BinaryData<T>& data) {
  out.put(data.data, static_cast<std::size_t>(data.size));
}
template <class T>
void load(Reader& in, cereal::BinaryData<T>& data) {
  in.get(data.data, static_cast<std::size_t>(data.size));
}

/// Writes and reads a value below `limit` as one byte.
template <class Archive, class Enum>
void serialize_enum(Archive& archive, Enum& value, std::size_t limit) {
  auto byte = static_cast<std::uint8_t>(value);
  archive(byte);
  if (byte >= limit)
    throw Unreadable("message header: a value is {}, but at most {} is allowed", byte, limit - 1);
  value = static_cast<Enum>(byte);
}

template <class Archive>
void serialize(Archive& archive, Header& h) {
  archive(h.token);
  serialize_enum(archive, h.kind, kinds);
  archive(h.reply, h.worker, h.step, h.micro_batch, h.begin, h.count, h.version, h.scalar, h.text);
}

Shape make_shape(std::size_t rank, const std::array<std::int64_t, Shape::max_rank>& e) {
  switch (rank) {
    case 0:
      return {};
    case 1:
      return {e[0]};
    case 2:
      return {e[0], e[1]};
    case 3:
      return {e[0], e[1], e[2]};
    case 4:
      return {e[0], e[1], e[2], e[3]};
    default:
      return {e[0], e[1], e[2], e[3], e[4]};
  }
}

template <class Archive>
void serialize(Archive& archive, FrameShape& frame) {
  serialize_enum(archive, frame.dtype, dtypes);
  auto rank = static_cast<std::uint8_t>(frame.shape.rank());
  archive(rank);
  if (rank > Shape::max_rank)
    throw Unreadable("message header: a frame has {} extents, which is too many", rank);
  std::array<std::int64_t, Shape::max_rank> extents{};
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    extents[i] = frame.shape[i];
    archive(extents[i]);
    if (extents[i] < 0 || (extents[i] > 0 && elements > max_elements / extents[i]))
      throw Unreadable(
          "message header: a frame has an extent of {}, which is negative or too large",
          extents[i]);
    elements *= extents[i];
  }
  frame.shape = make_shape(rank, extents);
}

}  // namespace

std::vector<std::byte> encode(const Message& message) {
  Header header = message.header;
  header.text.resize(std::min(header.text.size(), max_text));
  std::vector<FrameShape> frames;
  for (const Tensor& frame : message.frames) frames.push_back({frame.dtype(), frame.shape()});
  Writer out;
  out(magic, protocol_version, header, frames);
  return out.take();
}

Decoded decode(std::span<const std::byte> bytes) {
  if (bytes.size() > max_header_bytes)
    throw Unreadable("message header: it has {} bytes, but at most {} are allowed", bytes.size(),
                     max_header_bytes);
  Reader in(bytes);
  std::uint32_t its_magic = 0;
  std::uint16_t its_version = 0;
  in(its_magic, its_version);
  if (its_magic != magic) throw Unreadable("message header: not a header of Ringside");
  if (its_version != protocol_version)
    throw Unreadable("message header: version is {}, but this program has {}", its_version,
                     protocol_version);
  Decoded out;
  in(out.header, out.frames);
  if (in.left() > 0) throw Unreadable("message header: {} bytes left over", in.left());
  return out;
}

}  // namespace ringside::ps
