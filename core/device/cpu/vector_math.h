// Straight-line arithmetic that compilers vectorise, without library calls.
#pragma once

#include <bit>
#include <cstdint>

namespace ringside::cpu {

/// Returns e^x with a relative error of at most 3.1e-7 for x in [-87, 88]; 0 far below -87, e^88
/// above 88, NaN for NaN. Computes e^x as 2^n * e^r, where n is x / ln(2) rounded to an integer and
/// r = x - n * ln(2). The polynomial of Cephes' expf gives e^r. About 16 operations. Comparisons of
/// the bits of x as integers limit x to [-88, 88]: among floats of one sign, a larger magnitude has
/// bits that are a larger integer. Compilers would turn two comparisons of the float itself into
/// branches, and vectorise the branches with many masks.
inline float exponential(float x) {
  constexpr float ln2 = 0.69314718f, log2e = 1.44269504f;
  constexpr float round = 12582912.0f;  // 3 * 2^22: adding it leaves an integer in the low bits
  constexpr auto most = std::bit_cast<std::int32_t>(88.0f);
  constexpr auto least = std::bit_cast<std::uint32_t>(-88.0f);
  const auto high = std::bit_cast<std::int32_t>(x);
  const auto low = static_cast<std::uint32_t>(high < most ? high : most);
  const auto within = std::bit_cast<float>(low < least ? low : least);
  const float n = within * log2e + round;
  const float r = within - (n - round) * ln2;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const std::uint32_t power = (std::bit_cast<std::uint32_t>(n) << 23) + 0x3f800000u;
  const float e = p * std::bit_cast<float>(power);  // 0 if n = -127
  return x == x ? e : x;
}

/// Returns the largest of `count` > 0 numbers. Floats are compared as integers that have the same
/// order, because every compiler vectorises a maximum of integers, but a maximum of floats only if
/// it may assume that there are no NaNs. A NaN counts as the largest or the smallest number,
/// depending on its sign.
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

/// Writes e^(row - shift) to `out`, which may be `row`, and returns the sum. Not inlined, because
/// clang vectorises the sum only in a loop that stands alone in a function.
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
