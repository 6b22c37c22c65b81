// The rows of a matrix [rows, columns] that batch norm's kernels go over: parts of rows for sums in
// two steps, several rows loaded at once, and the grid for both.
#pragma once

#include "core/device/cuda/kernels/spread.cuh"
#include "core/device/cuda/kernels/vectors.cuh"

namespace ringside::cuda {

// The number of rows that a thread loads at once: `of_one` if it reads one operand, `of_many` of
// each operand if it reads several. The number of registers limits both.
inline constexpr int of_one = 4, of_many = 2;

/// The rows [begin, end) of part number `part` of `parts`. Block x of the grid sums part x.
struct Part {
  std::int64_t begin, end;

  __device__ __forceinline__ static Part of(std::int64_t rows, std::int64_t part,
                                            std::int64_t parts) {
    return {rows * part / parts, rows * (part + 1) / parts};
  }
};

/// Calls read(row) for `at_once` rows, then use(row, what was read) for each of them, until all
/// rows are done.
template <int at_once, class Read, class Use>
__device__ __forceinline__ void over_rows(std::int64_t first, std::int64_t end, std::int64_t stride,
                                          const Read& read, const Use& use) {
  for (std::int64_t row = first; row < end; row += stride * at_once) {
    decltype(read(row)) values[at_once] = {};
#pragma unroll
    for (int i = 0; i < at_once; ++i)
      if (row + i * stride < end) values[i] = read(row + i * stride);
#pragma unroll
    for (int i = 0; i < at_once; ++i)
      if (row + i * stride < end) use(row + i * stride, values[i]);
  }
}

/// The number of blocks for each range of columns. All ranges together get about 4 blocks for each
/// multiprocessor, or fewer if a block would otherwise have too few rows.
inline unsigned blocks_on_rows(const Context& context, const Spread& at, std::int64_t rows) {
  const std::int64_t most =
      std::max<std::int64_t>(1, 4 * context.multiprocessors / at.blocks_across());
  return std::max(1u, blocks_for(rows, 2 * of_one * at.down, most));
}

/// Calls run(std::integral_constant<int, n>, spread, blocks), where n is the number of elements
/// that can be read at once from all the operands, which are [M, C].
template <class T, class Run, class... Operands>
void spread_over(const Context& context, std::int64_t rows, std::int64_t channels, const Run& run,
                 const Operands*... operands) {
  const auto with = [&](auto n) {
    const Spread at = Spread::over(channels, n);
    run(n, at, dim3(blocks_on_rows(context, at, rows), at.blocks_across()));
  };
  if ((has_aligned_rows(operands, channels) && ...))
    with(std::integral_constant<int, in_16_bytes<T>>());
  else
    with(std::integral_constant<int, 1>());
}

}  // namespace ringside::cuda
