// Products of matrices whose operands stay in the caches, for products that are too small for a
// call of oneDNN and for results of which only a triangle is needed. A tile of the result is held
// in registers while its terms are added up (Goto and van de Geijn 2008). The order of the
// additions depends on k alone.
#pragma once

#include <cstdint>

#include "core/device/cpu/vectors.h"

namespace ringside::cpu {

/// The extents of a tile: as large as possible while all sums of the tile fit into the registers.
constexpr std::int64_t tile_rows = 6;
constexpr std::int64_t tile_columns = lanes * (lanes == 16 ? 4 : 2);

/// The maximum number of rows of a panel that are used at a time. They stay in a cache while all
/// rows of the left side are multiplied by them.
constexpr std::int64_t slice_rows = 256;

constexpr std::int64_t round_up(std::int64_t count, std::int64_t to) {
  return (count + to - 1) / to * to;
}

/// The left side of a product: element (i, p) at data[i * row + p * column].
struct Left {
  const float* data;
  std::int64_t row, column;
};

/// c = left * panel, or c += left * panel with `add`: [m, k] times [k, n]. c is row-major, with
/// `ldc` elements from one row to the next. m is at most tile_rows, n at most tile_columns; k may
/// be 0. Row p of the panel begins at panel[p * tile_columns] and has tile_columns elements even if
/// n is less.
void multiply_tile(std::int64_t m, std::int64_t n, std::int64_t k, Left left, const float* panel,
                   float* c, std::int64_t ldc, bool add);

/// Does what multiply_tile() does, for n = tile_columns and a left side whose rows lie anywhere in
/// memory: element (i, p) of the left side is rows[i][offset + p].
void multiply_rows(std::int64_t m, std::int64_t k, const float* const* rows, std::int64_t offset,
                   const float* panel, float* c, std::int64_t ldc, bool add);

/// c = left * panels, or c += left * panels with `add`: [m, k] times [k, n]. n must be a multiple
/// of tile_columns; m and k have no limit.
void multiply_panels(std::int64_t m, std::int64_t n, std::int64_t k, Left left, const float* panels,
                     float* c, std::int64_t ldc, bool add);

/// The number of floats in the panels of a matrix [k, n]. The panels lie in memory as
/// [n / tile_columns rounded up][k][tile_columns].
constexpr std::int64_t panels_size(std::int64_t k, std::int64_t n) {
  return k * round_up(n, tile_columns);
}
/// Writes the row-major matrix `from` [k, n] as panels, with zeros past column n.
void pack_panels(std::int64_t k, std::int64_t n, const float* from, std::int64_t ld, float* panels);
/// Writes the transpose of the row-major matrix `from` [n, k], times `factor`, as panels of [k, n],
/// with zeros past column n.
void pack_transposed(std::int64_t k, std::int64_t n, const float* from, std::int64_t ld,
                     float factor, float* panels);

}  // namespace ringside::cpu
