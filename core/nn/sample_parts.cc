#include "core/nn/sample_parts.h"

namespace ringside::layer {

Tensor take_part(Device& device, const Tensor& x, std::int64_t samples, std::int64_t begin,
                 std::int64_t count, MemoryKind kind) {
  const std::int64_t stride = x.count() / samples;
  const Tensor out = device.tensor({samples, count}, kind, x.dtype());
  for (std::int64_t b = 0; b < samples; ++b)
    device.kernels().copy(
        {.in = x.range(b * stride + begin, count), .out = out.range(b * count, count)});
  return out;
}

void put_part(Device& device, const Tensor& parts, const Tensor& x, std::int64_t samples,
              std::int64_t begin) {
  const std::int64_t stride = x.count() / samples, count = parts.count() / samples;
  device.kernels().cast({.in = parts,
                         .out = x.range(begin, (samples - 1) * stride + count),
                         .rows = samples,
                         .stride = stride});
}

}  // namespace ringside::layer
