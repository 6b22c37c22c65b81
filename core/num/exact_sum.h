// Sums without rounding: the order of the additions, and which rank adds up which part, do not
// change them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ringside {

/// The exact sum of squares of fp32 values. Each square is a whole multiple of 2^-298, the square
/// of the smallest fp32 value, and so is the sum. The sum is kept in digits of base 2^32 (the
/// fixed-point accumulator of Kulisch). Ranks exchange a sum as doubles, one for each digit, all of
/// them whole numbers. Adding at most 2^21 such sums digit by digit is exact as well, in any order.
/// Only value() rounds, once.
class ExactSum {
 public:
  static constexpr int digit_bits = 32;
  static constexpr int lowest_bit = -298;    // the exponent of the first digit's lowest bit
  static constexpr std::size_t digits = 19;  // enough for 2^40 squares of the largest fp32 value

  /// Adds `value`: a whole multiple of 2^-298 that is smaller than 2^298 in magnitude, or an
  /// infinity or NaN, which makes the sum infinite or NaN too. At most 2^30 values may be added.
  void add(double value);
  void add(const ExactSum& other);
  /// Writes the sum as doubles, of which each is a whole number and all but the last are below
  /// 2^32. The sum must not be negative.
  void store(std::span<double, digits> out) const;

  /// Returns the value of a stored sum, or of several stored sums added digit by digit, rounded to
  /// nearest once.
  static double value(std::span<const double, digits> stored);
  /// Returns the value of sum `i` of many sums that are stored one after the other.
  static double value(std::span<const double> stored, std::size_t i) {
    return value(stored.subspan(i * digits).first<digits>());
  }

 private:
  std::array<std::int64_t, digits> digits_{};
  double not_finite_ = 0;  // the infinity or NaN once such a value was added
};

}  // namespace ringside
