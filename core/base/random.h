// Counter-based random numbers: a value is a function of (seed, stream, position).
#pragma once

#include <array>
#include <cstdint>

namespace ringside {

/// Independent uses of one seed.
enum class Stream : std::uint32_t {
  parameters = 1,
  sampler = 2,
  synthetic_data = 3,
  augmentation = 4,
  masking = 5
};

/// Philox4x32-10 (Salmon et al., SC'11): 128 random bits from a counter and a key.
std::array<std::uint32_t, 4> philox(const std::array<std::uint32_t, 4>& counter,
                                    const std::array<std::uint32_t, 2>& key);

/// The key of `seed` for what is dropped (core/device/ops/flat.h), apart from the streams below.
constexpr std::array<std::uint32_t, 2> dropout_key(std::uint64_t seed) {
  return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32) ^ 0x64726f70u};
}

/// 64 random bits: Philox with the seed as its key and (position, stream, 0) as its counter.
std::uint64_t random_bits(std::uint64_t seed, Stream stream, std::uint64_t position);

/// In [0, 1), 53 bits.
double random_uniform(std::uint64_t seed, Stream stream, std::uint64_t position);

/// Standard normal (Box-Muller on the four words of one counter value).
double random_normal(std::uint64_t seed, Stream stream, std::uint64_t position);

/// The image of `position` under a permutation of [0, size) that (seed, key) picks: a Feistel
/// network over the next even power of two, walked until it lands inside (Black and Rogaway 2002).
/// No memory; ten Philox calls a walk, less than four walks on average.
std::uint64_t permuted(std::uint64_t position, std::uint64_t size, std::uint64_t seed,
                       std::uint64_t key);

}  // namespace ringside
