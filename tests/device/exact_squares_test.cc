// Sums of squares on the CPU: exact, however the values are split.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/device/cpu/cpu_device.h"
#include "core/num/exact_sum.h"
#include "core/num/random.h"
#include "tests/support/sum_of_bits.h"

namespace ringside {
namespace {

constexpr std::int64_t count = 9000;

/// Normally distributed numbers times powers of two from a range of `octaves` exponents; every 13th
/// number is zero.
std::vector<float> values_over(int octaves) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto exponent =
        static_cast<int>(random_bits(1, Stream::sampler, i) % 1000) * octaves / 1000;
    const double normal = random_normal(2, Stream::synthetic_data, i);
    out[i] = i % 13 == 0 ? 0 : static_cast<float>(std::ldexp(normal, exponent - octaves / 2 - 10));
  }
  return out;
}

class ExactSquares : public ::testing::TestWithParam<int> {
 protected:
  Tensor upload(const std::vector<float>& values) {
    const Tensor out = device_->tensor({count}, MemoryKind::gradient);
    device_->write(out, std::as_bytes(std::span(values)));
    return out;
  }
  std::vector<double> squares(const Tensor& values) {
    std::vector<double> sum(ExactSum::digits);
    const Tensor out = device_->tensor({ExactSum::digits}, MemoryKind::workspace, DType::f64);
    device_->kernels().sum_of_squares({.in = values, .out = out});
    device_->read(out, std::as_writable_bytes(std::span(sum)));
    return sum;
  }
  double in_parts(const Tensor& values, std::int64_t part) {
    std::vector<double> total(ExactSum::digits);
    for (std::int64_t begin = 0; begin < values.count(); begin += part) {
      const auto more = squares(values.range(begin, std::min(part, values.count() - begin)));
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += more[i];
    }
    return ExactSum::value(total, 0);
  }

  std::unique_ptr<Device> device_ = make_cpu_device(GetParam());
};

TEST_P(ExactSquares, AreTheSumOfAllBitsHoweverTheyAreSplit) {
  // The more octaves the values span, the more slices a block needs: two, three or four. If four
  // slices are too few, the values of the block are added one by one (core/device/cpu/squares.cc).
  for (const int octaves : {0, 5, 20, 45, 75, 250}) {
    const auto values = values_over(octaves);
    testing::SumOfBits expected;
    for (const double value : values) expected.add(value * value);
    const Tensor all = upload(values);
    EXPECT_EQ(ExactSum::value(squares(all), 0), expected.rounded()) << octaves;
    for (const std::int64_t part : {std::int64_t{1}, std::int64_t{100}, std::int64_t{4097}})
      EXPECT_EQ(in_parts(all, part), expected.rounded()) << octaves << " in parts of " << part;
  }
}

TEST_P(ExactSquares, OfValuesThatFillEverySliceToTheBrim) {
  // All mantissas are as large as possible. Every second value is divided by 2^below. A block needs
  // two slices if `below` is 17 or less, three up to 38, and four up to 58. Above 58 the values are
  // added one by one.
  for (const int below : {0, 8, 17, 18, 38, 39, 58, 59, 252}) {
    std::vector<float> values(count, 0x1.fffffep126F);
    for (std::size_t i = 1; i < values.size(); i += 2)
      values[i] = std::ldexp(0x1.fffffep126F, -below);
    testing::SumOfBits expected;
    for (const double value : values) expected.add(value * value);
    EXPECT_EQ(in_parts(upload(values), count), expected.rounded()) << below;
  }
}

TEST_P(ExactSquares, OfSixteenBitsAreThoseOfTheirValues) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor narrow = device_->tensor({count}, MemoryKind::gradient, dtype);
    device_->kernels().cast({.in = upload(values_over(8)), .out = narrow});
    const Tensor wide = device_->tensor({count}, MemoryKind::gradient);
    device_->kernels().cast({.in = narrow, .out = wide});
    EXPECT_EQ(squares(narrow), squares(wide));
    EXPECT_EQ(in_parts(narrow, 1001), in_parts(wide, count));
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ExactSquares, ::testing::Values(1, 2));

}  // namespace
}  // namespace ringside
