// Frames with recognisable values, on any device.
#pragma once

#include <vector>

#include "core/device/device.h"

namespace ringside::testing {

/// A tensor whose bytes count up from `first`.
inline Tensor counting(Device& device, Shape shape, DType dtype = DType::f32, int first = 0) {
  Tensor out = device.tensor(shape, MemoryKind::gradient, dtype);
  std::vector<std::byte> bytes(out.bytes());
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((i + static_cast<std::size_t>(first)) % 61);
  device.write(out, bytes);
  return out;
}

inline std::vector<std::byte> bytes_of(Device& device, const Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes());
  device.read(tensor, bytes);
  return bytes;
}

/// Whether shape, element type and values agree; each tensor lies on its own device.
inline bool same(Device& a_device, const Tensor& a, Device& b_device, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         bytes_of(a_device, a) == bytes_of(b_device, b);
}

}  // namespace ringside::testing
