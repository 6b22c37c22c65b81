// Compares the memory of each kind that each rank holds with the closed forms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "peer/fsdp/fsdp.h"
#include "ps/schemes/ps.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/tiny_runs.h"

namespace ringside::runner {
namespace {

using testing::run;
using testing::tiny;

/// A model whose parameters take more memory than its activations.
ExperimentConfig heavy() {
  auto config = tiny("mlp");
  config.model.width = 256;
  config.model.layers = 6;
  config.train.global_batch = 12;
  return config;
}

constexpr std::int64_t largest_unit_bytes = (256 * 256 + 256) * 4;  // a hidden layer, bytes

class MemoryAtWorld : public ::testing::TestWithParam<int> {
 protected:
  RunRecord run_scheme(const std::string& scheme) const {
    return run(plan_training(heavy(), scheme, GetParam()));
  }
  RunRecord run_fsdp(const peer::FsdpOptions& options) const {
    auto config = heavy();
    config.scheme_options["fsdp"] = options;
    return run(plan_training(config, "fsdp", GetParam()));
  }
};

TEST_P(MemoryAtWorld, DdpHoldsEverythingOnEveryRank) {
  const RunRecord row = run_scheme("ddp");
  for (const auto& rank : row.ranks) {
    EXPECT_EQ(rank.at_peak[MemoryKind::parameter], 4 * row.parameters);
    EXPECT_EQ(rank.at_peak[MemoryKind::gradient], 4 * row.parameters);
    EXPECT_EQ(rank.at_peak[MemoryKind::optimizer], 8 * row.parameters);
  }
}

/// The head writes its part of the table's gradient where the embedding's own will be.
TEST_P(MemoryAtWorld, DdpHoldsTheGradientOfATiedTableOnce) {
  auto config = tiny("gpt");
  config.model.tied = true;
  config.model.vocabulary = 256;
  const RunRecord row = run(plan_training(config, "ddp", GetParam()));
  for (const auto& rank : row.ranks) {
    EXPECT_GT(rank.at_peak[MemoryKind::activation], 4 * 256 * config.model.width);
    EXPECT_EQ(rank.at_peak[MemoryKind::gradient], 4 * row.parameters);
  }
}

TEST_P(MemoryAtWorld, FsdpHoldsItsShardAndAtMostTwoUnshardedUnits) {
  const RunRecord row = run_fsdp({.read_in_place = false});
  const RunRecord in_place = run_fsdp({.read_in_place = true});
  const std::int64_t shard = row.parameters / GetParam();
  const std::int64_t padding = 8;  // at most one element a unit
  for (const auto& rank : row.ranks) {
    EXPECT_NEAR(rank.at_peak[MemoryKind::parameter], 4 * shard, 4 * padding);
    EXPECT_NEAR(rank.at_peak[MemoryKind::gradient], 4 * shard, 4 * padding);
    EXPECT_NEAR(rank.at_peak[MemoryKind::optimizer], 8 * shard, 8 * padding);
    // The parameters of two gathered units, and the gradients of two units in a reduce-scatter.
    EXPECT_LE(rank.at_peak[MemoryKind::communication], 4 * largest_unit_bytes + 1024);
    EXPECT_EQ(rank.at_peak[MemoryKind::communication] > 0, GetParam() > 1);
  }
  // What is read in place differs in gathered units alone, and in nothing if there are none.
  for (std::size_t r = 0; r < row.ranks.size(); ++r) {
    const MemoryUse &copied = row.ranks[r].at_peak, &read = in_place.ranks[r].at_peak;
    for (const auto kind : {MemoryKind::parameter, MemoryKind::gradient, MemoryKind::optimizer})
      EXPECT_EQ(read[kind], copied[kind]);
    EXPECT_EQ(read.total() < copied.total(), GetParam() > 1);
  }
  EXPECT_THAT(testing::wrong_parameters(in_place, row), ::testing::IsEmpty());
}

TEST_P(MemoryAtWorld, TheMasterOfDpHoldsMoreThanItsWorkers) {
  const RunRecord row = run_scheme("dp");
  const auto& master = row.ranks.front();
  EXPECT_EQ(master.at_peak[MemoryKind::optimizer], 8 * row.parameters);
  for (const auto& rank : row.ranks) {
    if (rank.rank == 0) continue;
    EXPECT_GT(master.at_peak.total(), rank.at_peak.total() + 8 * row.parameters);
    EXPECT_EQ(rank.at_peak[MemoryKind::optimizer], 0);
  }
}

TEST_P(MemoryAtWorld, ServersOfPsShareTheOptimizer) {
  const RunRecord row = run_scheme("ps");
  std::int64_t optimizer = 0;
  for (const auto& rank : row.ranks) {
    optimizer += rank.at_peak[MemoryKind::optimizer];
    if (rank.role == "worker") {
      EXPECT_EQ(rank.at_peak[MemoryKind::optimizer], 0);
      EXPECT_EQ(rank.at_peak[MemoryKind::parameter], 4 * row.parameters);
    }
  }
  EXPECT_EQ(optimizer, 8 * row.parameters);
}

TEST_P(MemoryAtWorld, ServersOfAMixHoldWhatTheirSharesSay) {
  auto config = heavy();
  const ps::PsOptions options{
      .servers = 1, .placement = ps::Placement::mixed, .partition_mb = 0.004};
  config.scheme_options["ps"] = options;
  const RunRecord row = run(plan_training(config, "ps", GetParam()));
  const auto shares = ps::shares_of_servers(options.placement, options.servers, GetParam());
  const auto all = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  std::int64_t optimizer = 0;
  for (std::size_t r = 0; r < row.ranks.size(); ++r) {
    const MemoryUse& held = row.ranks[r].at_peak;
    optimizer += held[MemoryKind::optimizer];
    const std::int64_t own = row.parameters * shares[r] / all;  // rank r has server r
    const std::int64_t replica = row.ranks[r].role == "server" ? 0 : row.parameters;
    const std::int64_t chunk = 1000;
    EXPECT_NEAR(held[MemoryKind::optimizer], 8 * own, 8 * chunk) << row.ranks[r].role;
    EXPECT_NEAR(held[MemoryKind::parameter], 4 * (replica + own), 4 * chunk) << row.ranks[r].role;
  }
  EXPECT_EQ(optimizer, 8 * row.parameters);
}

INSTANTIATE_TEST_SUITE_P(Worlds, MemoryAtWorld, ::testing::Values(1, 2, 4));

}  // namespace
}  // namespace ringside::runner
