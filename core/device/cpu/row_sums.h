// Sums over rows whose bits do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"

namespace ringside::cpu {

constexpr std::int64_t row_grain = 32;  // fewer rows are not worth a thread

/// out = a + b; `out` may be a or b.
inline void add_rows(const float* a, const float* b, float* out, std::int64_t count) {
#pragma omp simd
  for (std::int64_t c = 0; c < count; ++c) out[c] = a[c] + b[c];
}

/// Calls row(r, sums) for every row; `row` adds the row's part to `count` sums. Returns a tensor
/// that begins with the sums. Parts of the rows have sums of their own, which are added up in
/// order. The number of parts depends on the number of rows alone.
template <class Row>
Tensor sum_over_rows(const Context& context, std::int64_t rows, std::int64_t count, Row row) {
  const std::int64_t parts = std::clamp<std::int64_t>(rows / row_grain, 1, 16);
  Tensor sums = context.device.tensor(Shape{parts, count}, MemoryKind::workspace, DType::f32);
  float* const all = sums.data<float>();
  parallel_for(context.threads, parts, 1, [&](std::int64_t part_begin, std::int64_t part_end, int) {
    for (std::int64_t part = part_begin; part < part_end; ++part) {
      float* const own = all + part * count;
      std::fill_n(own, count, 0.0f);
      for (std::int64_t r = rows * part / parts; r < rows * (part + 1) / parts; ++r) row(r, own);
    }
  });
  for (std::int64_t part = 1; part < parts; ++part) add_rows(all, all + part * count, all, count);
  return sums;
}

}  // namespace ringside::cpu
