// Products of matrices that stay in the caches: what is too small, or too triangular, for a call of
// oneDNN. A tile of the result is held in registers while its whole sum runs (Goto and van de Geijn
// 2008), so a sum's order is that of k alone.
#pragma once

#include <cstdint>

#include "core/device/cpu/vectors.h"

namespace ringside::cpu {

/// The extents of a tile: all that fits into the registers.
constexpr std::int64_t tile_rows = 6;
constexpr std::int64_t tile_columns = lanes * (lanes == 16 ? 4 : 2);

/// The most rows of a panel that stay in the first cache while rows of the left side pass by.
constexpr std::int64_t slice_rows = 256;

constexpr std::int64_t round_up(std::int64_t count, std::int64_t to) {
  return (count + to - 1) / to * to;
}

/// The left side of a product: element (i, p) at data[i * row + p * column].
struct Left {
  const float* data;
  std::int64_t row, column;
};

/// c = left panel, or c += with `add`: [m, k] times [k, n], row-major with `ldc` elements a row. m
/// is at most tile_rows, n at most tile_columns. Row p of the panel begins at panel[p *
/// tile_columns] and is whole, whatever n is; k may be 0.
void multiply_tile(std::int64_t m, std::int64_t n, std::int64_t k, Left left, const float* panel,
                   float* c, std::int64_t ldc, bool add);

/// The same with a left side whose rows lie anywhere, n = tile_columns: element (i, p) at
/// rows[i][offset + p].
void multiply_rows(std::int64_t m, std::int64_t k, const float* const* rows, std::int64_t offset,
                   const float* panel, float* c, std::int64_t ldc, bool add);

/// c = left panels, or c += with `add`: [m, k] times [k, n] of any extents, but n is a multiple of
/// tile_columns.
void multiply_panels(std::int64_t m, std::int64_t n, std::int64_t k, Left left, const float* panels,
                     float* c, std::int64_t ldc, bool add);

/// Floats of [k, n] as panels: [n / tile_columns rounded up][k][tile_columns].
constexpr std::int64_t panels_size(std::int64_t k, std::int64_t n) {
  return k * round_up(n, tile_columns);
}
/// Row-major `from` [k, n] as panels, with zeros past n.
void pack_panels(std::int64_t k, std::int64_t n, const float* from, std::int64_t ld, float* panels);
/// The transpose of row-major `from` [n, k], times `factor`, as panels of [k, n].
void pack_transposed(std::int64_t k, std::int64_t n, const float* from, std::int64_t ld,
                     float factor, float* panels);

}  // namespace ringside::cpu
