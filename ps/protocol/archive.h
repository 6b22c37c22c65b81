// Headers as bytes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ps/protocol/message.h"

namespace ringside::ps {

/// Longest header that is sent or read; a longer text is cut.
inline constexpr std::size_t max_header_bytes = 4096;

struct FrameShape {
  DType dtype = DType::f32;
  Shape shape;
};

struct Decoded {
  Header header;
  std::vector<FrameShape> frames;
};

/// Magic number and version, the header, the extents of the frames: Cereal over little-endian
/// bytes.
std::vector<std::byte> encode(const Message& message);

/// Trusts nothing: throws Error that names the cause for another magic number or version, a size
/// that is larger than the bytes left, a value that no enum or boolean has, negative or huge
/// extents, and bytes too few or left over. Allocates in proportion to `bytes`.
Decoded decode(std::span<const std::byte> bytes);

}  // namespace ringside::ps
