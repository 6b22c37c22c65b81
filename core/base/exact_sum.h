// Sums without rounding, which do not depend on who added up which part, or in which order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ringside {

/// The exact sum of squares of fp32 values. Each square is a whole multiple of 2^-298, the square
/// of the smallest fp32 value, so the sum is one too; it is kept in digits of base 2^32 (the
/// fixed-point accumulator of Kulisch). Ranks exchange a sum as doubles, one for each digit, all of
/// them whole numbers. Adding up to 2^21 such sums digit by digit is exact as well, in any order.
/// Only value() rounds, once.
class ExactSum {
 public:
  static constexpr int digit_bits = 32;
  static constexpr int lowest_bit = -298;    // the exponent of the first digit's lowest bit
  static constexpr std::size_t digits = 19;  // enough for 2^40 squares of the largest fp32 value

  /// `value` is a whole multiple of 2^-298 and smaller than 2^298 in magnitude, or not finite; then
  /// so is the total. At most 2^30 values are added.
  void add(double value);
  void add(const ExactSum& other);
  /// The sum, which is not negative, as doubles: each a whole number below 2^32, but for the last.
  void store(std::span<double, digits> out) const;

  /// What `digits` stored doubles stand for, or the sum of such, rounded to nearest once.
  static double value(std::span<const double, digits> stored);
  /// The same of sum `i` of many, one behind the other.
  static double value(std::span<const double> stored, std::size_t i) {
    return value(stored.subspan(i * digits).first<digits>());
  }

 private:
  std::array<std::int64_t, digits> digits_{};
  double not_finite_ = 0;  // an infinity or NaN once one was added
};

}  // namespace ringside
