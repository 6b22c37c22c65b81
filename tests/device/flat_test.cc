// Flat operations on every device: values, and bits that do not depend on position.
#include <algorithm>

#include "tests/device/harness.h"

namespace ringside {
namespace {

using reference::Values;

constexpr std::int64_t sizes[] = {1, 7, 33, 130, 5000, 100003};

class FlatKernels : public KernelsOnDevice {
 protected:
  Values positive(std::int64_t count) {
    Values out = normal_f32(count);
    for (auto& value : out) value = std::abs(value);
    return out;
  }

  struct Operand {
    Values values;
    DType dtype;
  };

  /// Runs `apply` once over [0, count), and then in pieces cut at odd places, on fresh copies of
  /// `operands`; every operand must end with the same bits.
  template <class Apply>
  void expect_position_independent(const std::vector<Operand>& operands, Apply&& apply) {
    const auto count = static_cast<std::int64_t>(operands.front().values.size());
    const auto run = [&](const std::vector<std::int64_t>& cuts) {
      std::vector<Tensor> tensors;
      for (const auto& operand : operands)
        tensors.push_back(upload({count}, operand.values, operand.dtype));
      for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
        std::vector<Tensor> piece;
        for (const auto& tensor : tensors)
          piece.push_back(tensor.range(cuts[i], cuts[i + 1] - cuts[i]));
        apply(piece);
      }
      std::vector<std::vector<float>> out;
      for (const auto& tensor : tensors) out.push_back(download(tensor));
      return out;
    };
    const auto whole = run({0, count});
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      std::vector<std::int64_t> cuts = {0, 1, count / 3 + static_cast<std::int64_t>(seed)};
      for (std::uint64_t i = 0; i < 9; ++i)
        cuts.push_back(static_cast<std::int64_t>(random_bits(seed, Stream::sampler, i) %
                                                 static_cast<std::uint64_t>(count)));
      cuts.push_back(count);
      std::sort(cuts.begin(), cuts.end());
      const auto pieces = run(cuts);
      for (std::size_t i = 0; i < whole.size(); ++i)
        EXPECT_EQ(std::memcmp(pieces[i].data(), whole[i].data(), whole[i].size() * sizeof(float)),
                  0)
            << "operand " << i;
    }
  }

  /// Masters of bf16 parameters, which are finer than those; none of fp32 ones.
  Values masters(const Values& parameters) {
    if (dtype() == DType::f32) return {};
    Values out = normal(static_cast<std::int64_t>(parameters.size()));
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = parameters[i] + out[i] * std::abs(parameters[i]) / 2048;
    return reference::rounded(std::move(out), DType::f32);
  }
  Tensor upload_masters(const Values& values) {
    if (values.empty()) return {};
    return upload({static_cast<std::int64_t>(values.size())}, values, DType::f32);
  }
  /// After an update: what the formula says, in the masters where there are any, and parameters
  /// that are these to the bit.
  void expect_updated(const Tensor& parameters, const Tensor& master, const Values& expected) {
    EXPECT_CLOSE(parameters, expected);
    if (!master) return;
    EXPECT_CLOSE(master, expected);
    const auto values = download(master);
    const auto published = held(Values(values.begin(), values.end()));
    EXPECT_EQ(download(parameters), std::vector<float>(published.begin(), published.end()));
  }
};
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
  for (const auto count : sizes) {
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
  for (const auto count : sizes) {
    const Values a = normal(count), b = normal(count);
    const Tensor out = upload({count}, a);
    kernels().add({.in = upload({count}, b), .out = out});
    Values sum = a;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
    EXPECT_CLOSE(out, sum);
  }
}

TEST_P(FlatKernels, CastRoundsToNearest) {
  // From the other dtype to that of the case; lengths and beginnings of every alignment.
  const DType from = dtype() == DType::bf16 ? DType::f32 : DType::bf16;
  for (const auto count : sizes)
    for (const std::int64_t begin : {0, 1}) {
      if (begin >= count) continue;
      const Values values = reference::rounded(normal_f32(count), from);
      const Tensor out = output({count});
      kernels().cast({.in = upload({count}, values, from).range(begin, count - begin),
                      .out = out.range(0, count - begin)});
      const auto actual = download(out.range(0, count - begin));
      const Values expected = held(values);
      for (std::size_t i = 0; i < actual.size(); ++i)
        ASSERT_EQ(actual[i], expected[i + static_cast<std::size_t>(begin)]) << i;
    }
}

TEST_P(FlatKernels, CastKeepsWhatIsSpecial) {
  // Ties of bf16 to either side, the largest of fp32, subnormals, zeros, what is not finite.
  const DType from = dtype() == DType::bf16 ? DType::f32 : DType::bf16;
  const Values values = {1 + 0x1p-8,  1 + 0x1.8p-7, -1 - 0x1p-8, 0x1.fffffep127, 0x1p-130, -0.0,
                         double{NAN}, INFINITY,     -INFINITY,   0x1.01p0,       0x1p-149, 3.0};
  const auto count = static_cast<std::int64_t>(values.size());
  const Values given = reference::rounded(values, from);
  const Tensor out = output({count});
  kernels().cast({.in = upload({count}, given, from), .out = out});
  const auto actual = download(out);
  const Values expected = held(given);
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(std::isnan(actual[i]), std::isnan(expected[i])) << i;
    if (std::isnan(expected[i])) continue;
    EXPECT_EQ(actual[i], expected[i]) << i;
    EXPECT_EQ(std::signbit(actual[i]), std::signbit(expected[i])) << i;
  }
}

TEST_P(FlatKernels, SumOfSquaresAgreesWithReference) {
  for (const auto count : sizes) {
    const Values values = normal(count + 3);
    const Tensor in = upload({count + 3}, values);
    std::vector<float> sums;
    for (const std::int64_t begin : {0, 3, 0}) {
      const Tensor out = output_f32({1});
      kernels().sum_of_squares({.in = in.range(begin, count), .out = out});
      EXPECT_CLOSE(out, Values{reference::sum_of_squares(
                            Values(values.begin() + begin, values.begin() + begin + count))});
      sums.push_back(download(out)[0]);
    }
    EXPECT_EQ(sums[0], sums[2]) << "the same values again";
  }
}

TEST_P(FlatKernels, SumOfSquaresOfNothingIsZero) {
  const Tensor in = upload({4}, Values(4, 1.0)), out = output_f32({1});
  kernels().sum_of_squares({.in = in.range(2, 0), .out = out});
  EXPECT_EQ(download(out)[0], 0);
}

TEST_P(FlatKernels, OperationsOnNothingChangeNothing) {
  const Tensor all = upload({4}, Values(4, 3.0));
  const Tensor none = all.range(1, 0);
  kernels().fill({.out = none, .value = 1});
  kernels().copy({.in = none, .out = none});
  kernels().add({.in = none, .out = none});
  EXPECT_EQ(download(all), std::vector<float>(4, 3.0f));
}

TEST_P(FlatKernels, AdamWAgreesWithReference) {
  for (const auto count : sizes)
    for (const std::int64_t step : {1, 2, 1000}) {
      const Values p = normal(count), g = normal(count), finer = masters(p);
      const Values m = normal_f32(count), v = positive(count);
      const AdamW op{.parameters = upload({count}, p),
                     .gradients = upload({count}, g),
                     .master = upload_masters(finer),
                     .first_moment = upload({count}, m, DType::f32),
                     .second_moment = upload({count}, v, DType::f32),
                     .lr = 0.1f,
                     .beta1 = 0.9f,
                     .beta2 = 0.95f,
                     .epsilon = 1e-8f,
                     .weight_decay = 0.1f,
                     .step = step};
      kernels().adamw(op);
      const auto expected = reference::adamw(op, finer.empty() ? p : finer, g, m, v);
      expect_updated(op.parameters, op.master, expected.parameters);
      EXPECT_CLOSE(op.first_moment, expected.first);
      EXPECT_CLOSE(op.second_moment, expected.second);
    }
}

TEST_P(FlatKernels, SgdAgreesWithReference) {
  for (const auto count : sizes)
    for (const std::int64_t step : {1, 2}) {
      const Values p = normal(count), g = normal(count), finer = masters(p);
      const Values u = normal_f32(count);
      Sgd op{.parameters = upload({count}, p),
             .gradients = upload({count}, g),
             .master = upload_masters(finer),
             .velocity = upload({count}, u, DType::f32),
             .lr = 0.1f,
             .momentum = 0.9f,
             .weight_decay = 0.01f,
             .step = step};
      kernels().sgd(op);
      const auto expected = reference::sgd(op, finer.empty() ? p : finer, g, u);
      expect_updated(op.parameters, op.master, expected.parameters);
      EXPECT_CLOSE(op.velocity, expected.first);
    }
}

TEST_P(FlatKernels, SgdWithoutMomentumNeedsNoVelocity) {
  const Values p = normal(130), g = normal(130), finer = masters(p);
  const Sgd op{.parameters = upload({130}, p),
               .gradients = upload({130}, g),
               .master = upload_masters(finer),
               .lr = 0.5f,
               .weight_decay = 0.1f,
               .step = 3};
  kernels().sgd(op);
  const Values none(130, 0.0);
  expect_updated(op.parameters, op.master,
                 reference::sgd(op, finer.empty() ? p : finer, g, none).parameters);
}

TEST_P(FlatKernels, SgdIgnoresWhatVelocityHeldBeforeStepOne) {
  const Values p = normal(130), g = normal(130);
  const Sgd op{.parameters = upload({130}, p),
               .gradients = upload({130}, g),
               .master = upload_masters(masters(p)),
               .velocity = output_f32({130}),
               .lr = 0.5f,
               .momentum = 0.9f};
  kernels().sgd(op);
  EXPECT_CLOSE(op.velocity, g);
}

TEST_P(FlatKernels, AddIsIndependentOfPosition) {
  expect_position_independent(
      {{normal(5003), dtype()}, {normal(5003), dtype()}},
      [&](const std::vector<Tensor>& t) { kernels().add({.in = t[0], .out = t[1]}); });
}

TEST_P(FlatKernels, CastIsIndependentOfPosition) {
  const DType from = dtype() == DType::bf16 ? DType::f32 : DType::bf16;
  expect_position_independent(
      {{normal_f32(5003), from}, {Values(5003, 0.0), dtype()}},
      [&](const std::vector<Tensor>& t) { kernels().cast({.in = t[0], .out = t[1]}); });
}

TEST_P(FlatKernels, AdamWIsIndependentOfPosition) {
  for (const std::int64_t count : {101, 70001}) {
    const Values p = normal(count);
    std::vector<Operand> operands = {{p, dtype()},
                                     {normal(count), dtype()},
                                     {normal_f32(count), DType::f32},
                                     {positive(count), DType::f32}};
    if (dtype() == DType::bf16) operands.push_back({masters(p), DType::f32});
    expect_position_independent(operands, [&](const std::vector<Tensor>& t) {
      kernels().adamw({.parameters = t[0],
                       .gradients = t[1],
                       .master = t.size() > 4 ? t[4] : Tensor(),
                       .first_moment = t[2],
                       .second_moment = t[3],
                       .lr = 3e-4f,
                       .beta1 = 0.9f,
                       .beta2 = 0.999f,
                       .epsilon = 1e-8f,
                       .weight_decay = 0.1f,
                       .step = 7});
    });
  }
}

TEST_P(FlatKernels, SgdIsIndependentOfPosition) {
  for (const std::int64_t step : {1, 2})
    for (const float momentum : {0.0f, 0.9f}) {
      const Values p = normal(5003);
      std::vector<Operand> operands = {
          {p, dtype()}, {normal(5003), dtype()}, {normal_f32(5003), DType::f32}};
      if (dtype() == DType::bf16) operands.push_back({masters(p), DType::f32});
      expect_position_independent(operands, [&](const std::vector<Tensor>& t) {
        kernels().sgd({.parameters = t[0],
                       .gradients = t[1],
                       .master = t.size() > 3 ? t[3] : Tensor(),
                       .velocity = t[2],
                       .lr = 3e-4f,
                       .momentum = momentum,
                       .weight_decay = 0.1f,
                       .step = step});
      });
    }
}

}  // namespace
}  // namespace ringside
