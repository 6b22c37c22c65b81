// The spread of a block's threads over a matrix [rows, columns]. Each thread has a few columns of
// its own. As many threads as possible stand side by side on a row, so that a block reads whole
// rows one after another.
#pragma once

#include "core/device/cuda/runtime/launch.h"

namespace ringside::cuda {

inline constexpr int spread_threads = 256;

/// The grid is (x, y): x for rows, y for columns that do not fit into one block.
struct Spread {
  std::int64_t columns;
  int each;          // columns of a thread
  int across, down;  // threads side by side on a row, and rows that a block has at a time

  static Spread over(std::int64_t columns, int each) {
    const std::int64_t packs = (columns + each - 1) / each;
    const int across = static_cast<int>(std::clamp<std::int64_t>(packs, 1, spread_threads));
    return {columns, each, across, spread_threads / across};
  }
  unsigned blocks_across() const { return blocks_for(columns, std::int64_t{across} * each); }
  /// The grid with one block for every `down` rows.
  dim3 blocks(std::int64_t rows) const { return {blocks_for(rows, down), blocks_across()}; }

  __device__ __forceinline__ std::int64_t column() const {
    return (std::int64_t{blockIdx.y} * across + threadIdx.x % across) * each;
  }
  /// row() is the thread's row within the block, row_of_grid() within the matrix.
  __device__ __forceinline__ int row() const { return static_cast<int>(threadIdx.x) / across; }
  __device__ __forceinline__ std::int64_t row_of_grid() const {
    return std::int64_t{blockIdx.x} * down + row();
  }
  /// False for threads that have no element.
  __device__ __forceinline__ bool works() const { return row() < down && column() < columns; }
};

}  // namespace ringside::cuda
