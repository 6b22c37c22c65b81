// Flat operations on every device: their values, and that the bits of an element do not depend on
// its position.
#include "tests/device/flat_fixture.h"

namespace ringside {
namespace {

using reference::Values;

INSTANTIATE_TEST_SUITE_P(Devices, FlatKernels, ::testing::ValuesIn(flat_operations_under_test()),
                         case_name);

TEST_P(FlatKernels, FillSetsTheRangeAndNothingElse) {
  for (const std::int64_t begin : {0, 1, 7, 8}) {
    const Tensor all = upload({130}, Values(130, 3.0));
    kernels().fill({.out = all.range(begin, 33), .value = -1.5f});
    const auto values = download(all);
    for (std::int64_t i = 0; i < 130; ++i)
      EXPECT_EQ(values[static_cast<std::size_t>(i)], i >= begin && i < begin + 33 ? -1.5f : 3.0f)
          << i << " of those from " << begin;
  }
}

TEST_P(FlatKernels, CopyMovesAnyElementType) {
  for (const auto count : flat_sizes) {
    const Values values = normal(count);
    const Tensor in = upload({count}, values), out = output({count});
    kernels().copy({.in = in, .out = out});
    EXPECT_EQ(download(out), download(in));
  }
  const Tensor in = upload({5}, std::vector<std::int32_t>{1, -2, 3, -4, 5});
  const Tensor out = device().tensor({5}, MemoryKind::data, DType::i32);
  kernels().copy({.in = in, .out = out});
  std::vector<std::int32_t> host(5);
  device().read(out, std::as_writable_bytes(std::span(host)));
  EXPECT_EQ(host, (std::vector<std::int32_t>{1, -2, 3, -4, 5}));
}

TEST_P(FlatKernels, AddAgreesWithReference) {
  for (const auto count : flat_sizes) {
    const Values a = normal(count), b = normal(count);
    const Tensor out = upload({count}, a);
    kernels().add({.in = upload({count}, b), .out = out});
    Values sum = a;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
    EXPECT_CLOSE(out, sum);
  }
}

/// The dtypes from which tests cast to the dtype `to`: all dtypes if `to` is fp32, else fp32 and
/// `to` itself.
std::vector<DType> cast_from(DType to) {
  if (to == DType::f32) return {DType::f32, DType::bf16, DType::f16};
  return {DType::f32, to};
}

TEST_P(FlatKernels, CastRoundsToNearest) {
  // Ranges of many lengths, with aligned and unaligned beginnings.
  for (const DType from : cast_from(dtype()))
    for (const auto count : flat_sizes)
      for (const std::int64_t begin : {0, 1}) {
        if (begin >= count) continue;
        const Values values = reference::rounded(normal_f32(count), from);
        const Tensor out = output({count});
        kernels().cast({.in = upload({count}, values, from).range(begin, count - begin),
                        .out = out.range(0, count - begin)});
        const auto actual = download(out.range(0, count - begin));
        const Values expected = held(values);
        for (std::size_t i = 0; i < actual.size(); ++i)
          ASSERT_EQ(actual[i], expected[i + static_cast<std::size_t>(begin)])
              << i << " from " << name_of(from);
      }
}

TEST_P(FlatKernels, CastWritesRowsApart) {
  std::vector<DType> all = cast_from(dtype());
  if (std::find(all.begin(), all.end(), dtype()) == all.end()) all.push_back(dtype());
  for (const DType from : all)
    for (const auto& [rows, columns, stride] :
         {std::array<std::int64_t, 3>{2, 1, 1}, {3, 5, 7}, {4, 130, 130}, {7, 1001, 1500}}) {
      const Values values = reference::rounded(normal_f32(rows * columns), from);
      const std::int64_t begin = 3, count = (rows - 1) * stride + columns;
      const Values before = normal(begin + count + 2);
      const Tensor out = upload({begin + count + 2}, before);
      kernels().cast({.in = upload({rows * columns}, values, from),
                      .out = out.range(begin, count),
                      .rows = rows,
                      .stride = stride});
      Values expected = before;
      const Values cast = held(values);
      for (std::int64_t r = 0; r < rows; ++r)
        std::copy_n(cast.begin() + r * columns, columns, expected.begin() + begin + r * stride);
      const auto actual = download(out);
      for (std::size_t i = 0; i < actual.size(); ++i)
        ASSERT_EQ(actual[i], expected[i]) << i << " from " << name_of(from);
    }
}

TEST_P(FlatKernels, CastKeepsWhatIsSpecial) {
  // Ties that bf16 and fp16 round up and down, the largest values of fp32 and fp16, subnormals,
  // zeros, infinities and NaN.
  const Values values = {1 + 0x1p-8,     1 + 0x1.8p-7, -1 - 0x1p-8, 1 + 0x1p-11, 1 + 0x1.8p-10,
                         0x1.fffffep127, 0x1p-130,     -0.0,        double{NAN}, INFINITY,
                         -INFINITY,      0x1.01p0,     0x1p-149,    3.0,         65504,
                         65519,          65520,        0x1p-24,     0x1p-25,     0x1.8p-24,
                         -0x1.004p-15};
  const auto count = static_cast<std::int64_t>(values.size());
  for (const DType from : cast_from(dtype())) {
    const Values given = reference::rounded(values, from);
    const Tensor out = output({count});
    kernels().cast({.in = upload({count}, given, from), .out = out});
    const auto actual = download(out);
    const Values expected = held(given);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_EQ(std::isnan(actual[i]), std::isnan(expected[i])) << values[i];
      if (std::isnan(expected[i])) continue;
      EXPECT_EQ(actual[i], expected[i]) << values[i];
      EXPECT_EQ(std::signbit(actual[i]), std::signbit(expected[i])) << values[i];
    }
  }
}

TEST_P(FlatKernels, SumOfSquaresAgreesWithReference) {
  for (const auto count : flat_sizes) {
    const Values values = normal(count + 3);
    const Tensor in = upload({count + 3}, values);
    Values sums;
    for (const std::int64_t begin : {0, 3, 0}) {
      const Tensor out = output_sums(1);
      kernels().sum_of_squares({.in = in.range(begin, count), .out = out});
      const double expected =
          reference::sum_of_squares(Values(values.begin() + begin, values.begin() + begin + count));
      sums.push_back(sums_in(out)[0]);
      EXPECT_NEAR(sums.back() / expected, 1, 1e-14 * static_cast<double>(count));
    }
    EXPECT_EQ(sums[0], sums[2]) << "the same values again";
  }
}

TEST_P(FlatKernels, SumOfSquaresOfNothingIsZero) {
  const Tensor in = upload({4}, Values(4, 1.0)), out = output_sums(1);
  kernels().sum_of_squares({.in = in.range(2, 0), .out = out});
  EXPECT_EQ(sums_in(out), Values{0});
}

TEST_P(FlatKernels, OperationsOnNothingChangeNothing) {
  const Tensor all = upload({4}, Values(4, 3.0));
  const Tensor none = all.range(1, 0);
  kernels().fill({.out = none, .value = 1});
  kernels().copy({.in = none, .out = none});
  kernels().add({.in = none, .out = none});
  EXPECT_EQ(download(all), std::vector<float>(4, 3.0f));
}

TEST_P(FlatKernels, AddIsIndependentOfPosition) {
  expect_position_independent(
      {{normal(5003), dtype()}, {normal(5003), dtype()}},
      [&](const std::vector<Tensor>& t) { kernels().add({.in = t[0], .out = t[1]}); });
}

TEST_P(FlatKernels, CastIsIndependentOfPosition) {
  for (const DType from : cast_from(dtype()))
    expect_position_independent(
        {{normal_f32(5003), from}, {Values(5003, 0.0), dtype()}},
        [&](const std::vector<Tensor>& t) { kernels().cast({.in = t[0], .out = t[1]}); });
}

TEST_P(FlatKernels, SumOfSquaresIsFiniteIfAndOnlyIfAllElementsAre) {
  const double largest = dtype() == DType::f32    ? 0x1.fffffep127
                         : dtype() == DType::bf16 ? 0x1.fep127
                                                  : 65504.0;
  for (const double value : {largest, double{INFINITY}, -double{INFINITY}, double{NAN}})
    for (const std::int64_t place : {0, 77, 99}) {
      Values values(100, largest);
      values[static_cast<std::size_t>(place)] = value;
      const Tensor out = output_sums(1);
      kernels().sum_of_squares({.in = upload({100}, values), .out = out});
      EXPECT_EQ(std::isfinite(sums_in(out)[0]), std::isfinite(value)) << value << " at " << place;
    }
}

TEST_P(FlatKernels, BlendAgreesWithReference) {
  for (const auto count : flat_sizes)
    for (const float out_scale : {0.0f, 1.0f, -0.25f}) {
      const Values in = normal(count), held_before = normal(count);
      const Tensor out = out_scale == 0 ? output({count}) : upload({count}, held_before);
      kernels().blend(
          {.in = upload({count}, in), .out = out, .in_scale = 0.9f, .out_scale = out_scale});
      Values expected(in.size());
      for (std::size_t i = 0; i < in.size(); ++i)
        expected[i] = double{0.9f} * in[i] + double{out_scale} * held_before[i];
      EXPECT_CLOSE(out, expected);
    }
}

TEST_P(FlatKernels, BlendIsIndependentOfPosition) {
  for (const float out_scale : {0.0f, 0.3f})
    expect_position_independent(
        {{normal(5003), dtype()}, {normal(5003), dtype()}}, [&](const std::vector<Tensor>& t) {
          kernels().blend({.in = t[0], .out = t[1], .in_scale = 0.7f, .out_scale = out_scale});
        });
}

/// A quotient is rounded once, by IEEE 754, so its bits are known.
TEST_P(FlatKernels, DivideHasTheBitsOfTheQuotient) {
  for (const auto count : flat_sizes)
    for (const float by : {1.0f, 0.75f, -3.0f}) {
      const Values in = normal(count);
      const Tensor from = upload({count}, in);
      const Tensor divisor = upload({1}, Values{by}, DType::f32);
      const Tensor out = output({count});
      kernels().divide({.in = from, .by = divisor, .out = out});
      Values expected(in.size());
      for (std::size_t i = 0; i < in.size(); ++i) expected[i] = static_cast<float>(in[i]) / by;
      const Values rounded = held(expected);
      EXPECT_EQ(download(out), std::vector<float>(rounded.begin(), rounded.end())) << by;
      kernels().divide({.in = from, .by = divisor, .out = from});
      EXPECT_EQ(download(from), download(out)) << "in place";
    }
}

TEST_P(FlatKernels, DivideIsIndependentOfPosition) {
  const Tensor divisor = upload({1}, Values{0.3}, DType::f32);
  expect_position_independent({{normal(5003), dtype()}, {Values(5003, 0.0), dtype()}},
                              [&](const std::vector<Tensor>& t) {
                                kernels().divide({.in = t[0], .by = divisor, .out = t[1]});
                              });
}

TEST_P(FlatKernels, CompensateDelayAgreesWithReference) {
  for (const auto count : flat_sizes)
    for (const float scale : {0.0f, 0.04f, 2.0f}) {
      const Values g = normal(count), now = normal(count), read = normal(count);
      const Tensor out = output({count});
      kernels().compensate_delay({.gradients = upload({count}, g),
                                  .now = upload({count}, now),
                                  .read = upload({count}, read),
                                  .out = out,
                                  .scale = scale});
      EXPECT_CLOSE(out, reference::compensated(g, now, read, scale));
    }
}

/// Every operation of the formula is rounded for itself, whatever instructions a device has.
TEST_P(FlatKernels, CompensateDelayHasTheBitsOfItsFormula) {
  constexpr std::int64_t count = 5003;
  constexpr float scale = 0.3f;
  const Values g = normal(count), now = normal(count), read = normal(count);
  const Tensor out = output({count});
  kernels().compensate_delay({.gradients = upload({count}, g),
                              .now = upload({count}, now),
                              .read = upload({count}, read),
                              .out = out,
                              .scale = scale});
  Values expected(g.size());
  for (std::size_t i = 0; i < g.size(); ++i) {
    const auto gradient = static_cast<float>(g[i]);
    const volatile float square = scale * gradient * gradient;
    const volatile float moved = static_cast<float>(now[i]) - static_cast<float>(read[i]);
    const volatile float correction = square * moved;
    expected[i] = gradient + correction;
  }
  const Values rounded = held(expected);
  EXPECT_EQ(download(out), std::vector<float>(rounded.begin(), rounded.end()));
}

TEST_P(FlatKernels, CompensateDelayMayOverwriteItsGradients) {
  for (const auto count : flat_sizes) {
    const Values g = normal(count), now = normal(count), read = normal(count);
    CompensateDelay op{.gradients = upload({count}, g),
                       .now = upload({count}, now),
                       .read = upload({count}, read),
                       .out = output({count}),
                       .scale = 2};
    kernels().compensate_delay(op);
    const auto expected = download(op.out);
    op.out = op.gradients;
    kernels().compensate_delay(op);
    EXPECT_EQ(download(op.gradients), expected) << count;
  }
}

TEST_P(FlatKernels, CompensateDelayIsIndependentOfPosition) {
  expect_position_independent(
      {{normal(5003), dtype()},
       {normal(5003), dtype()},
       {normal(5003), dtype()},
       {Values(5003, 0.0), dtype()}},
      [&](const std::vector<Tensor>& t) {
        kernels().compensate_delay(
            {.gradients = t[0], .now = t[1], .read = t[2], .out = t[3], .scale = 0.7f});
      });
}

/// Values of Dropout's `first`, the number of a range's first element: numbers at several places in
/// a block of four elements, and one shortly before 2^34, where the upper half of the counter
/// becomes 1.
constexpr std::int64_t dropout_places[] = {0, 1, 6, 1000003, (std::int64_t{1} << 34) - 50};

TEST_P(FlatKernels, DropoutAgreesWithReference) {
  for (const auto count : flat_sizes)
    for (const std::int64_t first : dropout_places)
      for (const float probability : {0.0f, 0.1f, 0.9f}) {
        if (count > 5000 && first > 1) continue;  // short ranges test the others
        const Values in = normal(count);
        for (const bool in_place : {false, true}) {
          Dropout op{.in = upload({count}, in),
                     .probability = probability,
                     .seed = 0x1234567890abcdef,
                     .layer = 5,
                     .step = 17,
                     .first = first};
          op.out = in_place ? op.in : output({count});
          kernels().dropout(op);
          SCOPED_TRACE(::testing::Message() << count << " elements from " << first);
          EXPECT_CLOSE(op.out, reference::dropout(op, in));
        }
      }
}

TEST_P(FlatKernels, DropoutDependsOnSeedLayerAndStepAlone) {
  constexpr std::int64_t count = 4096;
  const Tensor ones = upload({count}, Values(count, 1.0));
  const auto mask = [&](std::uint64_t seed, std::uint32_t layer, std::uint32_t step) {
    const Tensor out = output({count});
    kernels().dropout(
        {.in = ones, .out = out, .probability = 0.5f, .seed = seed, .layer = layer, .step = step});
    return download(out);
  };
  const auto once = mask(1, 2, 3);
  EXPECT_EQ(mask(1, 2, 3), once);
  for (const auto& other : {mask(2, 2, 3), mask(1 + (std::uint64_t{1} << 32), 2, 3), mask(1, 3, 3),
                            mask(1, 2, 4), mask(1, 3, 2)}) {
    std::int64_t same = 0;
    for (std::size_t i = 0; i < once.size(); ++i) same += once[i] == other[i];
    EXPECT_NEAR(static_cast<double>(same) / count, 0.5, 0.05);  // six standard deviations
  }
}

TEST_P(FlatKernels, DropoutKeepsItsShareAndTheMean) {
  constexpr std::int64_t count = 100000;
  const Tensor in = upload({count}, Values(count, 1.0)), out = output({count});
  for (const float probability : {0.1f, 0.5f}) {
    kernels().dropout({.in = in, .out = out, .probability = probability, .seed = 3});
    double kept = 0, sum = 0;
    for (const float value : download(out)) {
      kept += value != 0;
      sum += value;
    }
    EXPECT_NEAR(kept / count, 1 - probability, 0.01);
    EXPECT_NEAR(sum / count, 1, 0.02);
  }
}

TEST_P(FlatKernels, DropoutIsIndependentOfPosition) {
  for (const std::int64_t first : dropout_places)
    expect_position_independent(
        {{normal(5003), dtype()}, {normal(5003), dtype()}}, [&](const std::vector<Tensor>& t) {
          const auto begin = t[0].byte_offset() / size_of(dtype());
          kernels().dropout({.in = t[0],
                             .out = t[1],
                             .probability = 0.3f,
                             .seed = 9,
                             .first = first + static_cast<std::int64_t>(begin)});
        });
}

}  // namespace
}  // namespace ringside
