// Batch norms of ranks that put their statistics together are one batch norm over all their rows.
#include <cmath>

#include "core/num/random.h"
#include "tests/peer/ranks.h"
#include "tests/support/layer_units.h"
#include "tests/support/micro_batch.h"

namespace ringside::testing {
namespace {

constexpr std::int64_t rows = 6, channels = 5;  // rows: of each rank

float drawn(std::uint64_t seed, std::int64_t i) {
  // Every channel and every 8 rows have another mean, so the mean of a rank's rows is not the mean
  // of all rows.
  const double offset = static_cast<double>(i % channels) + 0.3 * static_cast<double>(i / 40);
  return static_cast<float>(
      offset + random_normal(seed, Stream::synthetic_data, static_cast<std::uint64_t>(i)));
}

struct Results {
  std::vector<float> y, dx, gradients, running;
};

/// Runs two forwards and one backward over the rows [first, first + count) of all ranks' rows.
Results train(BatchNormUnit& unit, std::int64_t first, std::int64_t count) {
  Device& device = unit.device();
  const auto part = [&](std::uint64_t seed) {
    const Tensor out = device.tensor({count, channels}, MemoryKind::workspace);
    for (std::int64_t i = 0; i < out.count(); ++i)
      out.data<float>()[i] = drawn(seed, first * channels + i);
    return out;
  };
  const auto values = [](const Tensor& t) {
    const auto span = t.span<float>();
    return std::vector<float>(span.begin(), span.end());
  };
  Results out;
  MicroBatch own;
  unit.forward(part(1), {.keep = false}, own.saved[0]);
  out.y = values(unit.forward(part(2), {}, own.saved[0]));
  out.dx = values(unit.backward(part(3), own.saved[0]));
  out.gradients = values(unit.gradients);
  for (const Unit::Statistic& statistic : unit.statistics())
    for (float v : values(statistic.values)) out.running.push_back(v);
  return out;
}

class SynchronisedBatchNorm : public ::testing::TestWithParam<int> {};

TEST_P(SynchronisedBatchNorm, IsOneBatchNormOverTheRowsOfAllRanks) {
  const int size = GetParam();
  for (const bool relu : {false, true}) {
    const auto device = make_cpu_device(1);
    BatchNormUnit whole(*device, channels, relu);
    const Results expected = train(whole, 0, size * rows);
    std::vector<Results> of_ranks(static_cast<std::size_t>(size));
    run_ranks(size, [&](const Rank& rank) {
      BatchNormUnit unit(rank.device, channels, relu);
      unit.join(&rank.comm);
      of_ranks[static_cast<std::size_t>(rank.rank)] = train(unit, rank.rank * rows, rows);
      // The unit has given back what it took from the symmetric heap.
      EXPECT_EQ(rank.device.ledger().current()[MemoryKind::communication], 0);
    });
    const auto expect_near = [](const std::vector<float>& actual, auto begin) {
      for (std::size_t i = 0; i < actual.size(); ++i) {
        const float value = begin[static_cast<std::ptrdiff_t>(i)];
        EXPECT_NEAR(actual[i], value, 1e-5 + 2e-6 * std::abs(value));
      }
    };
    std::vector<float> gradients(expected.gradients.size());
    for (int r = 0; r < size; ++r) {
      const Results& own = of_ranks[static_cast<std::size_t>(r)];
      expect_near(own.y, expected.y.begin() + r * rows * channels);
      expect_near(own.dx, expected.dx.begin() + r * rows * channels);
      expect_near(own.running, expected.running.begin());
      // A rank's gradients are sums over its own rows, which a scheme would add up over the ranks.
      for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] += own.gradients[i];
    }
    expect_near(gradients, expected.gradients.begin());
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, SynchronisedBatchNorm, ::testing::Values(1, 2, 4));

}  // namespace
}  // namespace ringside::testing
