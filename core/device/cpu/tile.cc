#include "core/device/cpu/tile.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace ringside::cpu {
namespace {

/// Walks through the columns of the left matrix, whose rows and columns have constant strides;
/// operator[] reads row r of the current column.
struct Strided {
  const float* __restrict a;
  std::int64_t row, column;

  float operator[](std::int64_t r) const { return a[r * row]; }
  void next() { a += column; }
};
/// The same for a left matrix whose rows lie anywhere in memory.
template <std::int64_t Rows>
struct Scattered {
  const float* rows[Rows];
  std::int64_t p = 0;

  Scattered(const float* const* begins, std::int64_t offset) {
#pragma GCC unroll 6
    for (std::int64_t r = 0; r < Rows; ++r) rows[r] = begins[r] + offset;
  }
  float operator[](std::int64_t r) const { return rows[r][p]; }
  void next() { ++p; }
};

/// Computes a tile with m = Rows and n = Vectors * lanes. Both are known when this is compiled, so
/// the compiler keeps the sums in registers.
template <std::int64_t Rows, std::int64_t Vectors, class Column>
[[gnu::always_inline]] inline void multiply(std::int64_t k, Column left,
                                            const float* __restrict panel, float* __restrict c,
                                            std::int64_t ldc, bool add) {
  Vector sums[Rows][Vectors] = {};
  for (std::int64_t p = 0; p < k; ++p) {
    Vector right[Vectors];
#pragma GCC unroll 4
    for (std::int64_t v = 0; v < Vectors; ++v) right[v] = load(panel + v * lanes);
#pragma GCC unroll 6
    for (std::int64_t r = 0; r < Rows; ++r) {
      const float x = left[r];
#pragma GCC unroll 4
      for (std::int64_t v = 0; v < Vectors; ++v) sums[r][v] += x * right[v];
    }
    left.next();
    panel += tile_columns;
  }
#pragma GCC unroll 6
  for (std::int64_t r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (std::int64_t v = 0; v < Vectors; ++v) {
      float* to = c + r * ldc + v * lanes;
      store(add ? load(to) + sums[r][v] : sums[r][v], to);
    }
  }
}

template <std::int64_t Rows, std::int64_t Vectors>
void multiply_strided(std::int64_t k, Left left, const float* panel, float* c, std::int64_t ldc,
                      bool add) {
  multiply<Rows, Vectors>(k, Strided{left.data, left.row, left.column}, panel, c, ldc, add);
}
template <std::int64_t Rows>
void multiply_scattered(std::int64_t k, const float* const* rows, std::int64_t offset,
                        const float* panel, float* c, std::int64_t ldc, bool add) {
  multiply<Rows, tile_columns / lanes>(k, Scattered<Rows>(rows, offset), panel, c, ldc, add);
}

using Multiply = void (*)(std::int64_t, Left, const float*, float*, std::int64_t, bool);
constexpr std::int64_t most_vectors = tile_columns / lanes;

template <std::size_t... Index>
constexpr auto multiplies(std::index_sequence<Index...>) {
  return std::array<Multiply, sizeof...(Index)>{
      multiply_strided<Index / most_vectors + 1, Index % most_vectors + 1>...};
}
/// multiply_strided<Rows, Vectors> has the index (Rows - 1) * most_vectors + Vectors - 1.
constexpr auto all = multiplies(std::make_index_sequence<tile_rows * most_vectors>());

/// One step of a transposition: divides the matrix into square blocks of 2 * Distance rows, and
/// swaps the upper right quarter of each block with its lower left quarter.
template <std::int64_t Distance, std::size_t... Lane>
void swap_blocks(Vector* rows, std::index_sequence<Lane...>) {
  constexpr int width = sizeof...(Lane), distance = Distance;
  for (int i = 0; i < width; ++i) {
    if (i & distance) continue;
    const Vector a = rows[i], b = rows[i + distance];
    rows[i] = __builtin_shufflevector(
        a, b, ((int{Lane} & distance) ? width + int{Lane} - distance : int{Lane})...);
    rows[i + distance] = __builtin_shufflevector(
        a, b, ((int{Lane} & distance) ? width + int{Lane} : int{Lane} + distance)...);
  }
}

template <std::int64_t Distance = lanes / 2>
void transpose(Vector* rows) {
  swap_blocks<Distance>(rows, std::make_index_sequence<lanes>());
  if constexpr (Distance > 1) transpose<Distance / 2>(rows);
}

}  // namespace

void multiply_tile(std::int64_t m, std::int64_t n, std::int64_t k, Left left, const float* panel,
                   float* c, std::int64_t ldc, bool add) {
  const std::int64_t vectors = (n + lanes - 1) / lanes;
  const Multiply run = all[static_cast<std::size_t>((m - 1) * most_vectors + vectors - 1)];
  if (n == vectors * lanes) return run(k, left, panel, c, ldc, add);
  // The last vector reaches past column n of c, where nothing may be written. So the tile is
  // computed in memory of its own first.
  alignas(64) float whole[tile_rows * tile_columns];
  run(k, left, panel, whole, tile_columns, false);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const float sum = whole[i * tile_columns + j];
      c[i * ldc + j] = add ? c[i * ldc + j] + sum : sum;
    }
}

void multiply_rows(std::int64_t m, std::int64_t k, const float* const* rows, std::int64_t offset,
                   const float* panel, float* c, std::int64_t ldc, bool add) {
  constexpr decltype(&multiply_scattered<1>) by_rows[tile_rows] = {
      multiply_scattered<1>, multiply_scattered<2>, multiply_scattered<3>,
      multiply_scattered<4>, multiply_scattered<5>, multiply_scattered<6>};
  by_rows[m - 1](k, rows, offset, panel, c, ldc, add);
}

void multiply_panels(std::int64_t m, std::int64_t n, std::int64_t k, Left left, const float* panels,
                     float* c, std::int64_t ldc, bool add) {
  const std::int64_t slices = (k + slice_rows - 1) / slice_rows;
  for (std::int64_t j = 0; j < n; j += tile_columns)
    for (std::int64_t slice = 0; slice < slices; ++slice) {
      const std::int64_t begin = k * slice / slices, end = k * (slice + 1) / slices;
      for (std::int64_t i = 0; i < m; i += tile_rows)
        multiply_tile(std::min(tile_rows, m - i), tile_columns, end - begin,
                      {left.data + i * left.row + begin * left.column, left.row, left.column},
                      panels + j * k + begin * tile_columns, c + i * ldc + j, ldc,
                      add || slice > 0);
    }
}

void pack_panels(std::int64_t k, std::int64_t n, const float* from, std::int64_t ld,
                 float* panels) {
  for (std::int64_t j = 0; j < n; j += tile_columns) {
    const std::int64_t columns = std::min(tile_columns, n - j);
    for (std::int64_t p = 0; p < k; ++p, panels += tile_columns) {
      std::copy_n(from + p * ld + j, columns, panels);
      std::fill(panels + columns, panels + tile_columns, 0.0f);
    }
  }
}

void pack_transposed(std::int64_t k, std::int64_t n, const float* from, std::int64_t ld,
                     float factor, float* panels) {
  for (std::int64_t j = 0; j < n; j += tile_columns, panels += k * tile_columns)
    for (std::int64_t c = 0; c < tile_columns; c += lanes)
      for (std::int64_t p = 0; p < k; p += lanes) {
        Vector block[lanes] = {};
        const std::int64_t rows = std::clamp<std::int64_t>(n - j - c, 0, lanes);
        const std::int64_t depth = std::min(lanes, k - p);
        for (std::int64_t r = 0; r < rows; ++r) {
          const float* row = from + (j + c + r) * ld + p;
          if (depth == lanes)
            block[r] = load(row);
          else
            std::memcpy(&block[r], row, static_cast<std::size_t>(depth) * sizeof(float));
        }
        transpose(block);
        for (std::int64_t d = 0; d < depth; ++d)
          store(factor * block[d], panels + (p + d) * tile_columns + c);
      }
}

}  // namespace ringside::cpu
