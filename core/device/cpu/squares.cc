// Squares of fp32 values are exact in fp64, but their sums are not. So the bits of all squares of a
// block are cut at the same places into slices. A slice has so few bits that, over a whole block,
// the parts of the squares in that slice add up exactly in fp64, in any order (Demmel and Nguyen,
// Parallel Reproducible Summation, 2015). Most blocks need two slices. Compiled without relaxed
// arithmetic, which would undo the cuts.
#include "core/device/cpu/squares.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace ringside::cpu {
namespace {

constexpr std::int64_t lanes = RINGSIDE_VECTOR_BYTES / 8;
using Doubles [[gnu::vector_size(RINGSIDE_VECTOR_BYTES)]] = double;
using Floats [[gnu::vector_size(RINGSIDE_VECTOR_BYTES / 2)]] = float;
constexpr int block_bits = std::countr_zero(static_cast<std::uint64_t>(squares_block));

// The number of bits of each kind of slice. Adding a square to a large number rounds the square to
// the slice's last bit; the mantissa then has 51 bits left for the sum of a block. The rest of a
// square is at most half of the slice's last bit in magnitude, so later slices can be one bit
// wider. The last slice takes all that is left, without the large number: its sum may use all 53
// bits. The square of a single value has up to 48 bits, too many for one slice.
constexpr int first_bits = 51 - block_bits, middle_bits = 52 - block_bits;
constexpr int last_bits = 54 - block_bits;

/// The bits of the smallest and of the largest magnitude of a block. Read as integers, the bits of
/// magnitudes have the order of the magnitudes. Zeros are left out, unless all values are zero.
struct Magnitudes {
  std::uint32_t smallest, largest;
};

Magnitudes magnitudes(const float* values, std::int64_t count) {
  // For zeros, bits - 1 wraps around to the largest value.
  std::uint32_t before_smallest = ~0u, largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffff;
    before_smallest = std::min(before_smallest, bits - 1);
    largest = std::max(largest, bits);
  }
  return {before_smallest + 1, largest};
}

/// The exponent of a float's leading bit; for subnormal numbers -126, which is above their true
/// exponent.
int exponent(std::uint32_t bits) { return std::max(static_cast<int>(bits >> 23), 1) - 127; }

/// 2^exponent, within the normal range.
double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

/// Adds the squares of `values` to `sum`; each square must be below 2^top. The last bit of the
/// first slice has the value 2^(top - first_bits).
template <int slices>
void add_slices(const float* values, std::int64_t count, int top, ExactSum& sum) {
  constexpr std::int64_t chains = 2;  // sums whose additions do not wait for each other
  Doubles sums[slices][chains];
  double starts[slices] = {};
  for (int slice = 0; slice < slices; ++slice) {
    if (slice + 1 < slices)
      starts[slice] = 1.5 * power_of_two(52 + top - first_bits - slice * middle_bits);
    for (Doubles& chain : sums[slice]) chain = Doubles{} + starts[slice];
  }
  const auto visit = [&](const float* from) {
#pragma GCC unroll 2
    for (std::int64_t chain = 0; chain < chains; ++chain) {
      Floats narrow;
      std::memcpy(&narrow, from + chain * lanes, sizeof narrow);
      const Doubles wide = __builtin_convertvector(narrow, Doubles);
      Doubles rest = wide * wide;
#pragma GCC unroll 4
      for (int slice = 0; slice + 1 < slices; ++slice) {
        const Doubles before = sums[slice][chain], after = before + rest;
        sums[slice][chain] = after;
        rest -= after - before;
      }
      sums[slices - 1][chain] += rest;
    }
  };
  std::int64_t i = 0;
  for (; i + chains * lanes <= count; i += chains * lanes) visit(values + i);
  if (i < count) {
    float last[chains * lanes] = {};
    std::copy(values + i, values + count, last);
    visit(last);
  }
  for (int slice = 0; slice < slices; ++slice) {
    Doubles of_lanes = {};
    for (const Doubles& chain : sums[slice]) of_lanes += chain - starts[slice];
    double total = 0;
    for (std::int64_t lane = 0; lane < lanes; ++lane) total += of_lanes[lane];
    sum.add(total);
  }
}

}  // namespace

void add_squares(const float* values, std::int64_t count, ExactSum& sum) {
  const auto [smallest, largest] = magnitudes(values, count);
  if (largest == 0) return;
  if (largest >= std::bit_cast<std::uint32_t>(std::numeric_limits<float>::infinity())) {
    for (std::int64_t i = 0; i < count; ++i)
      if (!std::isfinite(values[i])) sum.add(static_cast<double>(values[i] * values[i]));
    return;
  }
  const int top = 2 * exponent(largest) + 2, bits = top - (2 * exponent(smallest) - 46);
  if (bits <= first_bits + last_bits) return add_slices<2>(values, count, top, sum);
  if (bits <= first_bits + middle_bits + last_bits) return add_slices<3>(values, count, top, sum);
  if (bits <= first_bits + 2 * middle_bits + last_bits)
    return add_slices<4>(values, count, top, sum);
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = values[i];
    sum.add(value * value);
  }
}

}  // namespace ringside::cpu
