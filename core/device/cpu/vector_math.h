// Straight-line arithmetic that compilers vectorise, without library calls.
#pragma once

#include <bit>
#include <cstdint>

namespace ringside::cpu {

/// e^x within 2e-7 relative for x in [-87, 88]; 0 far below, e^88 above, NaN for NaN. Cody-Waite
/// reduction with the degree-6 polynomial of Cephes' expf; about 12 operations. Where it chooses,
/// it chooses between values at hand: a computation behind a condition would end vectorisation.
inline float exponential(float x) {
  constexpr float ln2 = 0.69314718f, log2e = 1.44269504f;
  const float high = x > 88.0f ? 88.0f : x;
  const float low = high < -88.0f ? -88.0f : high;  // a NaN is still one
  const float scaled = low * log2e;
  const float safe = scaled > -127.0f ? scaled : -127.0f;  // no longer: integers know none
  const auto n = static_cast<std::int32_t>(safe + (safe < 0 ? -0.5f : 0.5f));
  const float r = low - static_cast<float>(n) * ln2;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  return p * std::bit_cast<float>((n + 127) << 23);  // n = -127 gives 0
}

/// The largest of `count` > 0 numbers. Floats are compared as integers of the same order: such a
/// maximum any compiler vectorises, where one of floats waits for a promise that no NaN comes. A
/// NaN is the largest or the smallest by its sign.
inline float highest(const float* row, std::int64_t count) {
  const auto ordered = [](std::int32_t bits) { return bits ^ ((bits >> 31) & 0x7fffffff); };
  auto most = ordered(std::bit_cast<std::int32_t>(row[0]));
#pragma omp simd reduction(max : most)
  for (std::int64_t j = 0; j < count; ++j) {
    const auto next = ordered(std::bit_cast<std::int32_t>(row[j]));
    most = next > most ? next : most;
  }
  return std::bit_cast<float>(ordered(most));
}

/// Writes e^(row - shift) to `out`, which may be `row`, and returns the sum. Not inlined: clang
/// finds the sum only in a loop that stands alone.
[[gnu::noinline]] inline float exponentials(const float* row, std::int64_t count, float shift,
                                            float* out) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < count; ++j) {
    const float e = exponential(row[j] - shift);
    out[j] = e;
    sum += e;
  }
  return sum;
}

}  // namespace ringside::cpu
