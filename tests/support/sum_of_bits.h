// A reference for exact sums that is simple enough to check by reading.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace ringside::testing {

/// Counts, for every power of two from 2^-298 on, how many of the added values have that bit.
class SumOfBits {
 public:
  /// Adds `value`, which must be a multiple of 2^-298 and not negative.
  void add(double value) {
    while (value > 0) {
      const int exponent = std::ilogb(value);
      ++counts_[static_cast<std::size_t>(exponent - lowest)];
      value -= std::ldexp(1.0, exponent);
    }
  }

  /// The sum, rounded to the nearest double; ties go to the even one.
  double rounded() const {
    auto bits = counts_;
    for (std::size_t i = 0; i + 1 < bits.size(); ++i) {
      bits[i + 1] += bits[i] / 2;
      bits[i] %= 2;
    }
    std::size_t top = bits.size() - 1;
    while (top > 0 && bits[top] == 0) --top;
    double value = 0;
    std::size_t place = top + 1;
    for (int kept = 0; kept < 53 && place > 0; ++kept) {
      --place;
      value += static_cast<double>(bits[place]) * std::ldexp(1.0, power(place));
    }
    if (place == 0 || bits[place - 1] == 0) return value;
    bool more = bits[place] == 1;  // odd: a tie rounds up
    for (std::size_t i = 0; i + 1 < place; ++i) more = more || bits[i] != 0;
    return more ? value + std::ldexp(1.0, power(place)) : value;
  }

 private:
  static constexpr int lowest = -298;
  static int power(std::size_t place) { return static_cast<int>(place) + lowest; }

  std::array<std::uint64_t, 640> counts_{};
};

}  // namespace ringside::testing
