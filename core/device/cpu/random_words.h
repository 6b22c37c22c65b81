// Words of Philox for many counters at once, in a loop that compilers vectorise.
#pragma once

#include <array>
#include <cstdint>

namespace ringside::cpu {

/// The number of counters whose words are made together.
inline constexpr std::uint64_t counters_at_once = 32;

/// Makes the words of counters_at_once counters {lower half of n, upper half of n, `third`,
/// `fourth`}, n from `first` on, with the bits of philox() (core/num/random.h). words[w *
/// counters_at_once + i] is word w of counter i.
inline void draw_words(std::uint64_t first, std::uint32_t third, std::uint32_t fourth,
                       std::array<std::uint32_t, 2> key, std::uint32_t* __restrict words) {
  constexpr std::uint32_t step0 = 0x9e3779b9u, step1 = 0xbb67ae85u;  // added to the key each round
  constexpr std::uint64_t factor0 = 0xd2511f53u, factor1 = 0xcd9e8d57u;
  constexpr std::uint64_t batch = counters_at_once;
  std::uint32_t* __restrict c0 = words;
  std::uint32_t* __restrict c1 = words + batch;
  std::uint32_t* __restrict c2 = words + 2 * batch;
  std::uint32_t* __restrict c3 = words + 3 * batch;
  for (std::uint64_t i = 0; i < batch; ++i) {
    c0[i] = static_cast<std::uint32_t>(first + i);
    c1[i] = static_cast<std::uint32_t>((first + i) >> 32);
    c2[i] = third;
    c3[i] = fourth;
  }
  auto [key0, key1] = key;
  for (int round = 0; round < 10; ++round) {
    for (std::uint64_t i = 0; i < batch; ++i) {
      const std::uint64_t product0 = factor0 * c0[i], product1 = factor1 * c2[i];
      c0[i] = static_cast<std::uint32_t>(product1 >> 32) ^ c1[i] ^ key0;
      c1[i] = static_cast<std::uint32_t>(product1);
      c2[i] = static_cast<std::uint32_t>(product0 >> 32) ^ c3[i] ^ key1;
      c3[i] = static_cast<std::uint32_t>(product0);
    }
    key0 += step0;
    key1 += step1;
  }
}

}  // namespace ringside::cpu
