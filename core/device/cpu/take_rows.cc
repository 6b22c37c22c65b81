#include <algorithm>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"

namespace ringside::cpu {

void take_rows_forward(const Context& context, const TakeRowsForward& op) {
  const std::int64_t rows = op.x.shape()[1], taken = op.positions.shape()[1];
  const std::int64_t row_bytes = op.x.shape()[2] * static_cast<std::int64_t>(size_of(op.x.dtype()));
  const auto* positions = op.positions.data<std::int32_t>();
  const auto* x = op.x.data<std::uint8_t>();
  auto* y = op.y.data<std::uint8_t>();
  parallel_for(context.threads, op.positions.count(), 64,
               [=](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; ++i)
                   std::copy_n(x + (i / taken * rows + positions[i]) * row_bytes, row_bytes,
                               y + i * row_bytes);
               });
}

void take_rows_backward(const Context& context, const TakeRowsBackward& op) {
  const std::int64_t samples = op.dx.shape()[0], rows = op.dx.shape()[1], width = op.dx.shape()[2];
  const std::int64_t taken = op.positions.shape()[1];
  const auto* positions = op.positions.data<std::int32_t>();
  const float* dy = op.dy.data<float>();
  float* dx = op.dx.data<float>();
  parallel_for(context.threads, samples, 1, [=](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t b = begin; b < end; ++b) {
      float* sample = dx + b * rows * width;
      std::fill_n(sample, rows * width, 0.0f);
      for (std::int64_t i = b * taken; i < (b + 1) * taken; ++i) {
        const float* __restrict from = dy + i * width;
        float* __restrict to = sample + positions[i] * width;
        for (std::int64_t c = 0; c < width; ++c) to[c] += from[c];
      }
    }
  });
}

}  // namespace ringside::cpu
