// Random words by counter.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ringside::cuda {

/// Philox4x32-10 (Salmon et al., SC'11), with the same bits as ringside::philox().
__device__ __forceinline__ uint4 philox4x32(uint4 counter, uint2 key) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xd2511f53u} * counter.x;
    const std::uint64_t second = std::uint64_t{0xcd9e8d57u} * counter.z;
    counter = {static_cast<std::uint32_t>(second >> 32) ^ counter.y ^ key.x,
               static_cast<std::uint32_t>(second),
               static_cast<std::uint32_t>(first >> 32) ^ counter.w ^ key.y,
               static_cast<std::uint32_t>(first)};
    key.x += 0x9e3779b9u;
    key.y += 0xbb67ae85u;
  }
  return counter;
}

/// Word `place` (0 to 3) of the four.
__device__ __forceinline__ std::uint32_t word_of(uint4 words, int place) {
  return place == 0 ? words.x : place == 1 ? words.y : place == 2 ? words.z : words.w;
}

}  // namespace ringside::cuda
