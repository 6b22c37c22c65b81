#include "core/base/random.h"

#include <Random123/philox.h>

#include <bit>
#include <cmath>
#include <numbers>

namespace ringside {
namespace {

r123::Philox4x32::ctr_type philox(std::uint64_t seed, std::uint32_t stream, std::uint32_t extra,
                                  std::uint64_t position) {
  const r123::Philox4x32::key_type key = {
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  const r123::Philox4x32::ctr_type counter = {{static_cast<std::uint32_t>(position),
                                               static_cast<std::uint32_t>(position >> 32), stream,
                                               extra}};
  return r123::Philox4x32{}(counter, key);
}

std::uint64_t word(std::uint32_t low, std::uint32_t high) {
  return low | (static_cast<std::uint64_t>(high) << 32);
}

/// In (0, 1]: a logarithm of it is finite.
double open_unit(std::uint64_t bits) { return static_cast<double>((bits >> 11) + 1) * 0x1.0p-53; }

}  // namespace

std::uint64_t random_bits(std::uint64_t seed, Stream stream, std::uint64_t position) {
  const auto r = philox(seed, static_cast<std::uint32_t>(stream), 0, position);
  return word(r[0], r[1]);
}

double random_uniform(std::uint64_t seed, Stream stream, std::uint64_t position) {
  return static_cast<double>(random_bits(seed, stream, position) >> 11) * 0x1.0p-53;
}

double random_normal(std::uint64_t seed, Stream stream, std::uint64_t position) {
  const auto r = philox(seed, static_cast<std::uint32_t>(stream), 0, position);
  const double radius = std::sqrt(-2.0 * std::log(open_unit(word(r[0], r[1]))));
  return radius * std::cos(2.0 * std::numbers::pi * open_unit(word(r[2], r[3])));
}

std::uint64_t permuted(std::uint64_t position, std::uint64_t size, std::uint64_t seed,
                       std::uint64_t key) {
  if (size <= 1) return position;
  const int half_bits = (std::bit_width(size - 1) + 1) / 2;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  constexpr std::uint32_t rounds = 4;
  do {
    std::uint64_t left = position >> half_bits, right = position & mask;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      // The round function sees the whole key: (seed, stream + round, key, right half).
      const auto r = philox(seed ^ (key * 0x9E3779B97F4A7C15u),
                            static_cast<std::uint32_t>(Stream::sampler), round + 1, right);
      const std::uint64_t next = (left ^ word(r[0], r[1])) & mask;
      left = right;
      right = next;
    }
    position = (left << half_bits) | right;
  } while (position >= size);
  return position;
}

}  // namespace ringside
