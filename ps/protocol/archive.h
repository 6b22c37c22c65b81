// Message headers as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "ps/protocol/message.h"

namespace ringside::ps {

/// The version of the format, to be raised with every change of a header or of its meaning.
inline constexpr std::uint16_t protocol_version = 6;

/// The longest header that decode() reads, in bytes. encode() cuts a header's text if it is long.
inline constexpr std::size_t max_header_bytes = 4096;

struct FrameShape {
  DType dtype = DType::f32;
  Shape shape;
};

struct Decoded {
  Header header;
  std::vector<FrameShape> frames;
};

/// Returns a message as bytes, except for the values of its frames: magic number and version, the
/// header, then the dtypes and the extents of the frames (Cereal, little-endian).
std::vector<std::byte> encode(const Message& message);

/// The error for bytes that are no header of this version: garbage, or a message of a program with
/// another version.
class Unreadable : public Error {
 public:
  using Error::Error;
};

/// Decodes the bytes of encode(), which may come from an untrusted sender. Throws Unreadable that
/// names the cause if the magic number or the version is not this program's, a size is larger than
/// the bytes left, an enum or a boolean has a value that does not exist, extents are negative or
/// huge, or bytes are missing or left over. Allocates memory in proportion to the length of
/// `bytes`.
Decoded decode(std::span<const std::byte> bytes);

}  // namespace ringside::ps
