#include "core/num/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace ringside {
namespace {

constexpr std::int64_t low_half = 0xffffffff;  // of 64 bits

/// Brings all digits but the last into [0, 2^32); the last digit takes the carry.
void carry(std::span<std::int64_t> digits) {
  for (std::size_t i = 0; i + 1 < digits.size(); ++i) {
    digits[i + 1] += digits[i] >> ExactSum::digit_bits;
    digits[i] &= low_half;
  }
}

}  // namespace

void ExactSum::add(double value) {
  constexpr int significand_bits = 52;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto exponent = static_cast<int>(bits >> significand_bits & 0x7ff);
  if (exponent == 0x7ff) not_finite_ += value;
  if (exponent == 0x7ff || exponent == 0) return;  // exponent 0: zero, or below 2^-298
  auto whole = static_cast<std::int64_t>((bits & ((std::uint64_t{1} << significand_bits) - 1)) |
                                         (std::uint64_t{1} << significand_bits));
  int place = exponent - 1023 - significand_bits - lowest_bit;
  if (place < 0) {
    whole >>= -place;  // exact: `value` is a multiple of 2^-298, so these bits are 0
    place = 0;
  }
  if (value < 0) whole = -whole;
  const auto first = static_cast<std::size_t>(place / digit_bits);
  const int shift = place % digit_bits;
  const std::int64_t low = (whole & low_half) << shift;  // below 2^63
  const std::int64_t high = (whole >> digit_bits) * (std::int64_t{1} << shift);
  // `low` and `high` have at most 63 bits each, and are cut where one digit ends and the next
  // begins.
  const std::int64_t parts[] = {low & low_half, (low >> digit_bits) + (high & low_half),
                                high >> digit_bits};
  for (std::size_t i = 0; i < 3; ++i) digits_[first + i] += parts[i];
}

void ExactSum::add(const ExactSum& other) {
  std::transform(digits_.begin(), digits_.end(), other.digits_.begin(), digits_.begin(),
                 std::plus<>());
  not_finite_ += other.not_finite_;
}

void ExactSum::store(std::span<double, digits> out) const {
  std::array<std::int64_t, digits> carried = digits_;
  carry(carried);
  std::transform(carried.begin(), carried.end(), out.begin(),
                 [](std::int64_t digit) { return static_cast<double>(digit); });
  out.back() += not_finite_;
}

double ExactSum::value(std::span<const double, digits> stored) {
  if (!std::all_of(stored.begin(), stored.end(), [](double d) { return std::isfinite(d); }))
    return std::accumulate(stored.begin(), stored.end(), 0.0);
  std::array<std::int64_t, digits + 1> whole{};
  std::transform(stored.begin(), stored.end(), whole.begin(),
                 [](double digit) { return static_cast<std::int64_t>(digit); });
  carry(whole);
  std::size_t top = digits;
  while (top > 0 && whole[top] == 0) --top;
  const auto digit = [&](std::size_t below_top) {
    return below_top > top ? 0 : static_cast<std::uint64_t>(whole[top - below_top]);
  };
  // The leading 64 bits of the sum. If any bit behind these is set, the lowest of the 64 bits is
  // set too. So converting the 64 bits to double rounds as converting the whole sum would.
  const std::uint64_t two = digit(0) << digit_bits | digit(1);
  if (two == 0) return 0;
  const int shift = std::countl_zero(two);  // below 32: the top digit is not 0
  const std::uint64_t leading = two << shift | digit(2) >> (digit_bits - shift);
  bool more = (digit(2) << shift & low_half) != 0;
  for (std::size_t i = 3; i <= top; ++i) more = more || digit(i) != 0;
  return std::ldexp(static_cast<double>(leading | (more ? 1 : 0)),
                    lowest_bit + digit_bits * (static_cast<int>(top) - 1) - shift);
}

}  // namespace ringside
