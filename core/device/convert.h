// Conversion of values from one dtype to another.
#pragma once

#include "core/device/device.h"

namespace ringside {

/// Returns `values` in this dtype: the tensor itself if it has the dtype, else a copy in new
/// memory.
inline Tensor converted(Device& device, const Tensor& values, DType dtype,
                        MemoryKind kind = MemoryKind::workspace) {
  if (values.dtype() == dtype) return values;
  const Tensor out = device.tensor({values.count()}, kind, dtype);
  device.kernels().cast({.in = values, .out = out});
  return out;
}

/// out += in, where `in` is first converted to the dtype of `out`.
inline void add_converted(Device& device, const Tensor& in, const Tensor& out) {
  device.kernels().add({.in = converted(device, in, out.dtype()), .out = out});
}

}  // namespace ringside
