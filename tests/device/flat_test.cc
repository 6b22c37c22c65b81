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
    Values out = normal(count);
    for (auto& value : out) value = std::abs(value);
    return out;
  }

  /// Runs `apply` once over [0, count), and then in pieces cut at odd places, on fresh copies of
  /// `operands`; every operand must end with the same bits.
  template <class Apply>
  void expect_position_independent(const std::vector<Values>& operands, Apply&& apply) {
    const auto count = static_cast<std::int64_t>(operands.front().size());
    const auto run = [&](const std::vector<std::int64_t>& cuts) {
      std::vector<Tensor> tensors;
      for (const auto& values : operands) tensors.push_back(upload({count}, values));
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
};
INSTANTIATE_TEST_SUITE_P(Devices, FlatKernels, ::testing::ValuesIn(devices_under_test()),
                         case_name);

TEST_P(FlatKernels, FillSetsTheRangeAndNothingElse) {
  const Tensor all = upload({130}, Values(130, 3.0));
  kernels().fill({.out = all.range(7, 33), .value = -1.5f});
  const auto values = download(all);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], i >= 7 && i < 40 ? -1.5f : 3.0f) << i;
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

TEST_P(FlatKernels, AdamWAgreesWithReference) {
  for (const auto count : sizes)
    for (const std::int64_t step : {1, 2, 1000}) {
      const Values p = normal(count), g = normal(count), m = normal(count), v = positive(count);
      const AdamW op{.parameters = upload({count}, p),
                     .gradients = upload({count}, g),
                     .first_moment = upload({count}, m),
                     .second_moment = upload({count}, v),
                     .lr = 0.1f,
                     .beta1 = 0.9f,
                     .beta2 = 0.95f,
                     .epsilon = 1e-8f,
                     .weight_decay = 0.1f,
                     .step = step};
      kernels().adamw(op);
      const auto expected = reference::adamw(op, p, g, m, v);
      EXPECT_CLOSE(op.parameters, expected.parameters);
      EXPECT_CLOSE(op.first_moment, expected.first);
      EXPECT_CLOSE(op.second_moment, expected.second);
    }
}

TEST_P(FlatKernels, SgdAgreesWithReference) {
  for (const auto count : sizes)
    for (const std::int64_t step : {1, 2}) {
      const Values p = normal(count), g = normal(count), u = normal(count);
      Sgd op{.parameters = upload({count}, p),
             .gradients = upload({count}, g),
             .velocity = upload({count}, u),
             .lr = 0.1f,
             .momentum = 0.9f,
             .weight_decay = 0.01f,
             .step = step};
      kernels().sgd(op);
      const auto expected = reference::sgd(op, p, g, u);
      EXPECT_CLOSE(op.parameters, expected.parameters);
      EXPECT_CLOSE(op.velocity, expected.first);
    }
}

TEST_P(FlatKernels, SgdWithoutMomentumNeedsNoVelocity) {
  const Values p = normal(130), g = normal(130);
  const Sgd op{.parameters = upload({130}, p),
               .gradients = upload({130}, g),
               .lr = 0.5f,
               .weight_decay = 0.1f,
               .step = 3};
  kernels().sgd(op);
  EXPECT_CLOSE(op.parameters, reference::sgd(op, p, g, Values(130, 0.0)).parameters);
}

TEST_P(FlatKernels, SgdIgnoresWhatVelocityHeldBeforeStepOne) {
  const Values p = normal(130), g = normal(130);
  const Sgd op{.parameters = upload({130}, p),
               .gradients = upload({130}, g),
               .velocity = output({130}),
               .lr = 0.5f,
               .momentum = 0.9f};
  kernels().sgd(op);
  EXPECT_CLOSE(op.velocity, g);
}

TEST_P(FlatKernels, AddIsIndependentOfPosition) {
  expect_position_independent({normal(5003), normal(5003)}, [&](const std::vector<Tensor>& t) {
    kernels().add({.in = t[0], .out = t[1]});
  });
}

TEST_P(FlatKernels, AdamWIsIndependentOfPosition) {
  for (const std::int64_t count : {101, 70001})
    expect_position_independent({normal(count), normal(count), normal(count), positive(count)},
                                [&](const std::vector<Tensor>& t) {
                                  kernels().adamw({.parameters = t[0],
                                                   .gradients = t[1],
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

TEST_P(FlatKernels, SgdIsIndependentOfPosition) {
  for (const std::int64_t step : {1, 2})
    for (const float momentum : {0.0f, 0.9f})
      expect_position_independent({normal(5003), normal(5003), normal(5003)},
                                  [&](const std::vector<Tensor>& t) {
                                    kernels().sgd({.parameters = t[0],
                                                   .gradients = t[1],
                                                   .velocity = t[2],
                                                   .lr = 3e-4f,
                                                   .momentum = momentum,
                                                   .weight_decay = 0.1f,
                                                   .step = step});
                                  });
}

}  // namespace
}  // namespace ringside
