// 200 random schedules of workers that do not wait for each other, in the real world and in the
// simulated one, for each consistency at worlds 2, 3 and 4: every run ends with its replay's bits.
#include <gtest/gtest.h>

#include <set>

#include "tests/schemes/free_workers.h"

namespace ringside::runner {
namespace {

constexpr std::uint64_t schedules = 200;
/// Two workers and five steps have few schedules that jitter alone brings about, and fewer still if
/// the workers exchange values now and then alone (easgd).
constexpr std::size_t least_different = 8;

class Schedules : public ::testing::TestWithParam<std::tuple<testing::FreeConsistency, int>> {
 protected:
  static ExperimentConfig config(std::uint64_t seed) {
    auto config = testing::tiny("mlp");
    config.train.seed = static_cast<std::int64_t>(seed);
    return config;
  }
  RunPlan plan(const ExperimentConfig& config) const {
    return testing::plan_of(config, std::get<0>(GetParam()).options, std::get<1>(GetParam()));
  }
  void expect_right(const RunRecord& row, std::uint64_t seed) {
    const Verdict verdict = testing::verdict_of(row);
    ASSERT_EQ(verdict.proof, Proof::identical_to_replay) << verdict.cause << " seed " << seed;
    const ps::PsOptions& options = std::get<0>(GetParam()).options;
    if (options.consistency == ps::Consistency::ssp) {
      ASSERT_LE(row.staleness->max, static_cast<double>(options.staleness_bound)) << seed;
    }
    std::string events;
    for (const RankRecord& rank : row.ranks)
      for (const ChunkHistory& range : rank.history) events += range.events + ";";
    seen_.insert(events);
  }
  std::set<std::string> seen_;  // the schedules that were different
};
INSTANTIATE_TEST_SUITE_P(Ps, Schedules,
                         ::testing::Combine(::testing::ValuesIn(testing::ways_to_keep_in_step()),
                                            ::testing::Values(2, 3, 4)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_world_" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST_P(Schedules, OfRealRanksAreReplayed) {
  for (std::uint64_t seed = 0; seed < schedules; ++seed)
    expect_right(testing::with_replay(testing::run_hindered(plan(config(seed)), seed)), seed);
  std::printf("%zu schedules, %zu of them different\n", static_cast<std::size_t>(schedules),
              seen_.size());
  EXPECT_GT(seen_.size(), least_different);
}

TEST_P(Schedules, OfSimulatedRanksAreReplayed) {
  const auto simulate_plan = [](const RunPlan& one) {
    return make_row(one, simulate(one, [](const Progress&) {}));
  };
  for (std::uint64_t seed = 0; seed < schedules; ++seed) {
    auto simulated = testing::simulated(config(seed), testing::small_cluster(1));
    simulated.cluster->machines = std::get<1>(GetParam());
    simulated.sim.numerics = true;
    simulated.sim.jitter = 0.5;
    RunRecord row = simulate_plan(plan(simulated));
    row.replay = testing::replayed(row, simulate_plan);
    expect_right(row, seed);
  }
  std::printf("%zu schedules, %zu of them different\n", static_cast<std::size_t>(schedules),
              seen_.size());
  EXPECT_GT(seen_.size(), least_different);
}

}  // namespace
}  // namespace ringside::runner
