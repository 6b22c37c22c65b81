// Message headers as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "ps/protocol/message.h"

namespace ringside::ps {

/// Changes whenever a header or what follows from one does.
inline constexpr std::uint16_t protocol_version = 2;

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

/// Says that bytes are no header that this program reads: they are garbage, or of a program that
/// speaks another version.
class Unreadable : public Error {
 public:
  using Error::Error;
};

/// Reads what encode() wrote, and trusts nothing. Throws Unreadable that names the cause if the
/// magic number or the version is not this program's, a size is larger than the bytes left, an enum
/// or a boolean has a value that does not exist, extents are negative or huge, or bytes are missing
/// or left over. Allocates memory in proportion to the length of `bytes`.
Decoded decode(std::span<const std::byte> bytes);

}  // namespace ringside::ps
