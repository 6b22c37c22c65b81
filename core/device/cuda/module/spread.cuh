// How the threads of a block are spread over a matrix [rows, columns]: so many beside each other,
// each on a few columns of its own, that they read whole rows one after another.
#pragma once

#include "core/device/cuda/module/launch.h"

namespace ringside::cuda {

inline constexpr int spread_threads = 256;

/// Blocks are (x, y): y for columns that have no room in one block, x for rows.
struct Spread {
  std::int64_t columns;
  int each;          // columns of a thread
  int across, down;  // threads on a row, and rows that a block has at a time

  static Spread over(std::int64_t columns, int each) {
    const std::int64_t packs = (columns + each - 1) / each;
    const int across = static_cast<int>(std::clamp<std::int64_t>(packs, 1, spread_threads));
    return {columns, each, across, spread_threads / across};
  }
  unsigned blocks_across() const { return blocks_for(columns, std::int64_t{across} * each); }
  /// A block for every `down` rows.
  dim3 blocks(std::int64_t rows) const { return {blocks_for(rows, down), blocks_across()}; }

  __device__ __forceinline__ std::int64_t column() const {
    return (std::int64_t{blockIdx.y} * across + threadIdx.x % across) * each;
  }
  /// Within the block, and of the whole matrix.
  __device__ __forceinline__ int row() const { return static_cast<int>(threadIdx.x) / across; }
  __device__ __forceinline__ std::int64_t row_of_grid() const {
    return std::int64_t{blockIdx.x} * down + row();
  }
  /// A thread may be left over.
  __device__ __forceinline__ bool works() const { return row() < down && column() < columns; }
};

}  // namespace ringside::cuda
