// Counter-based random numbers: every value is a function of (seed, stream, position) alone.
#pragma once

#include <array>
#include <cstdint>

namespace ringside {

/// Uses of one seed whose random numbers are independent of each other.
enum class Stream : std::uint32_t {
  parameters = 1,
  sampler = 2,
  synthetic_data = 3,
  augmentation = 4,
  masking = 5,
  jitter = 6,
  lengths = 7,
  codes = 8,
  clients = 9
};

/// Philox4x32-10 (Salmon et al., SC'11): 128 random bits from a counter and a key.
std::array<std::uint32_t, 4> philox(const std::array<std::uint32_t, 4>& counter,
                                    const std::array<std::uint32_t, 2>& key);

/// The key under which dropout draws with `seed` (core/device/ops/flat.h). It differs from the key
/// of the streams, so dropout is independent of them.
constexpr std::array<std::uint32_t, 2> dropout_key(std::uint64_t seed) {
  return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32) ^ 0x64726f70u};
}

/// The key under which codes of gradients draw with `seed` (core/device/ops/codes.h).
constexpr std::array<std::uint32_t, 2> code_key(std::uint64_t seed) {
  return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32) ^ 0x636f6465u};
}

/// Scrambles the bits of a number: the finaliser of MurmurHash3 (Appleby 2011) of its product with
/// 2^32 divided by the golden ratio. Cheaper than Philox, for numbers of which a few follow a
/// random one.
constexpr std::uint32_t scrambled(std::uint32_t value) {
  value *= 0x9e3779b9u;
  value = (value ^ value >> 16) * 0x85ebca6bu;
  value = (value ^ value >> 13) * 0xc2b2ae35u;
  return value ^ value >> 16;
}

/// Returns 64 random bits: Philox with the seed as its key and (position, stream, 0) as its
/// counter.
std::uint64_t random_bits(std::uint64_t seed, Stream stream, std::uint64_t position);

/// Returns a uniform value in [0, 1) with 53 random bits.
double random_uniform(std::uint64_t seed, Stream stream, std::uint64_t position);

/// Returns a standard normal value (Box-Muller on the four words of one counter value).
double random_normal(std::uint64_t seed, Stream stream, std::uint64_t position);

/// Returns the image of `position` under a permutation of [0, size) that (seed, key) selects. A
/// Feistel network permutes [0, n), where n is the smallest power of four that is not below `size`;
/// the network is applied again until the value is below `size` (Black and Rogaway 2002). This
/// needs no memory. Each application costs ten Philox calls, and fewer than four applications are
/// needed on average.
std::uint64_t permuted(std::uint64_t position, std::uint64_t size, std::uint64_t seed,
                       std::uint64_t key);

}  // namespace ringside
