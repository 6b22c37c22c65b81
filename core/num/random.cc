#include "core/num/random.h"

#include <Random123/philox.h>

#include <bit>
#include <cmath>
#include <numbers>

namespace ringside {
namespace {

std::array<std::uint32_t, 2> halves(std::uint64_t value) {
  return {static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(value >> 32)};
}

std::array<std::uint32_t, 4> draw(std::uint64_t seed, Stream stream, std::uint64_t position) {
  const auto [low, high] = halves(position);
  return philox({low, high, static_cast<std::uint32_t>(stream), 0}, halves(seed));
}

std::uint64_t word(std::uint32_t low, std::uint32_t high) {
  return low | (static_cast<std::uint64_t>(high) << 32);
}

/// Returns a value in (0, 1], so that its logarithm is finite.
double open_unit(std::uint64_t bits) { return static_cast<double>((bits >> 11) + 1) * 0x1.0p-53; }

}  // namespace

std::array<std::uint32_t, 4> philox(const std::array<std::uint32_t, 4>& counter,
                                    const std::array<std::uint32_t, 2>& key) {
  using Philox = r123::Philox4x32;
  const Philox::ctr_type r =
      Philox{}(Philox::ctr_type{{counter[0], counter[1], counter[2], counter[3]}},
               Philox::key_type{{key[0], key[1]}});
  return {r[0], r[1], r[2], r[3]};
}

std::uint64_t random_bits(std::uint64_t seed, Stream stream, std::uint64_t position) {
  const auto r = draw(seed, stream, position);
  return word(r[0], r[1]);
}

double random_uniform(std::uint64_t seed, Stream stream, std::uint64_t position) {
  return static_cast<double>(random_bits(seed, stream, position) >> 11) * 0x1.0p-53;
}

double random_normal(std::uint64_t seed, Stream stream, std::uint64_t position) {
  const auto r = draw(seed, stream, position);
  const double radius = std::sqrt(-2.0 * std::log(open_unit(word(r[0], r[1]))));
  return radius * std::cos(2.0 * std::numbers::pi * open_unit(word(r[2], r[3])));
}

std::uint64_t permuted(std::uint64_t position, std::uint64_t size, std::uint64_t seed,
                       std::uint64_t key) {
  if (size <= 1) return position;
  const int half_bits = (std::bit_width(size - 1) + 1) / 2;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  constexpr std::uint32_t rounds = 10;  // with fewer rounds, ranges below 10 show a pattern
  const auto [key_low, key_high] = halves(key);
  do {
    std::uint64_t left = position >> half_bits, right = position & mask;
    for (std::uint32_t round = 1; round <= rounds; ++round) {
      // `right` has at most 32 bits, so its conversion loses no bits. The last word of this counter
      // is never 0. In draw() it is always 0, so the two functions never use the same counter.
      const auto r = philox({static_cast<std::uint32_t>(right), key_low, key_high,
                             static_cast<std::uint32_t>(Stream::sampler) << 8 | round},
                            halves(seed));
      const std::uint64_t next = (left ^ word(r[0], r[1])) & mask;
      left = right;
      right = next;
    }
    position = (left << half_bits) | right;
  } while (position >= size);
  return position;
}

}  // namespace ringside
