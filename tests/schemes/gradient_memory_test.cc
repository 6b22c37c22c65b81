// The table of gradients in docs/sharding.md: their bytes by how often, where and in what they are
// summed.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/device/cpu/cpu_device.h"
#include "tests/schemes/tiny_runs.h"

namespace ringside::runner {
namespace {

/// A training of two workers, or of one, on real devices.
struct Training {
  const char* scheme;
  std::int64_t micro_batches = 1;  // of a worker in a step
  Precision precision = Precision::bf16;
  ReducePrecision sums = ReducePrecision::same;
  Reduce reduce = Reduce::by_scheme;
};

ExperimentConfig config_of(const Training& one, int world) {
  auto config = testing::tiny("gpt");
  config.train.steps = 2;
  config.train.micro_batch = config.train.global_batch / world / one.micro_batches;
  config.train.precision = one.precision;
  config.train.reduce_precision = one.sums;
  config.train.reduce = one.reduce;
  return config;
}

/// Bytes a parameter, of the rank that holds most of them.
double gradients(const Training& one) {
  const int world = std::string_view(one.scheme) == "single" ? 1 : 2;
  const RunRecord row = testing::run(plan_training(config_of(one, world), one.scheme, world));
  std::int64_t most = 0;
  for (const RankRecord& rank : row.ranks)
    most = std::max(most, rank.at_peak[MemoryKind::gradient]);
  return static_cast<double>(most) / static_cast<double>(row.parameters);
}

/// The largest unit's share of the parameters.
double largest_unit() {
  const auto device = make_cpu_device(1);
  const Model model = make_model(config_of({"single"}, 1).model, *device);
  std::int64_t largest = 0;
  for (const auto& unit : model.units) largest = std::max(largest, unit->layout().count());
  return static_cast<double>(largest) / static_cast<double>(model.parameter_count());
}

TEST(GradientMemory, IsWhatThePageOfMemorySays) {
  constexpr auto fp32 = Precision::fp32;
  constexpr auto same = ReducePrecision::same, in_fp32 = ReducePrecision::fp32;
  constexpr auto bf16 = Precision::bf16;
  const double u = largest_unit(), near = 0.02;  // buffers end at multiples of 64 bytes
  EXPECT_NEAR(gradients({"single", 1, fp32}), 4, near);
  EXPECT_NEAR(gradients({"single", 1}), 2, near);
  EXPECT_NEAR(gradients({"single", 2, fp32}), 4 * (1 + u), near);
  EXPECT_NEAR(gradients({"single", 2}), 2 * (1 + u), near);
  EXPECT_NEAR(gradients({"ddp", 2, bf16, same, Reduce::every}), 4, near);
  EXPECT_NEAR(gradients({"ddp", 1, bf16, in_fp32}), 6, near);
  EXPECT_NEAR(gradients({"ddp", 2, bf16, in_fp32}), 4 + 2 * (1 + u), near);
}

}  // namespace
}  // namespace ringside::runner
