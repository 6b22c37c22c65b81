// Workers of ps that add up their gradients in groups before they push: runs end with the bits of
// their definition, and a machine's link carries the bytes of one replica.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/runner/config/cluster_file.h"
#include "experiments/runner/run/simulation.h"
#include "peer/fsdp/fsdp.h"
#include "ps/schemes/ps.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/simulated.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/complaint.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

using ps::Placement;
using testing::complaint;
using testing::definition_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::reference_of;
using testing::run;
using testing::simulated;
using testing::tiny;
using testing::violations;
using testing::wrong_losses;
using testing::wrong_parameters;

struct SumGroupCase {
  int world;
  std::int64_t group;
  Placement placement;
  std::int64_t servers;

  bool nested() const { return group < world; }
  ps::PsOptions options() const {
    return {.servers = servers, .placement = placement, .sum_group = group, .partition_mb = 0.01};
  }
};

/// Three servers colocated with four workers are not equally many for both members of a group of
/// two.
constexpr SumGroupCase sum_group_cases[] = {
    {2, 2, Placement::dedicated, 2}, {3, 3, Placement::dedicated, 1},
    {4, 2, Placement::dedicated, 1}, {4, 2, Placement::dedicated, 3},
    {4, 4, Placement::dedicated, 2}, {2, 2, Placement::colocated, 2},
    {4, 2, Placement::colocated, 2}, {4, 2, Placement::colocated, 4},
    {4, 2, Placement::colocated, 3}, {2, 2, Placement::mixed, 1},
    {4, 2, Placement::mixed, 0},     {4, 2, Placement::mixed, 1},
    {4, 2, Placement::mixed, 2}};

class SumGroups : public ::testing::TestWithParam<SumGroupCase> {
 protected:
  static void expect_the_bits_of_the_definition(ExperimentConfig config) {
    config.scheme_options["ps"] = GetParam().options();
    const RunRecord row = run(plan_training(config, "ps", GetParam().world));
    EXPECT_THAT(violations(row, definition_of(config, "ps", GetParam().world)), IsEmpty());
  }
};

TEST_P(SumGroups, EndWithTheBitsOfTheDefinition) {
  auto config = testing::evaluating();
  config.model.tied = true;
  expect_the_bits_of_the_definition(config);
  // No group divides every unit of this model.
  config = tiny("mlp");
  config.model.width = 25;
  config.optimizer.kind = "sgd";
  expect_the_bits_of_the_definition(config);
}

TEST_P(SumGroups, ClipAndMeasureNorms) {
  auto config = tiny("gpt");
  config.optimizer.clip_norm = 0.5;
  expect_the_bits_of_the_definition(config);
  config.optimizer.kind = "lamb";
  config.optimizer.decay = Decay::matrices;
  expect_the_bits_of_the_definition(config);
}

TEST_P(SumGroups, TrainInSixteenBits) {
  auto config = tiny("mlp");
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    config.train.precision = precision;
    expect_the_bits_of_the_definition(config);
  }
  // The weights become so large that gradients overflow in some steps.
  config.train.steps = 12;
  config.optimizer.kind = "sgd";
  config.optimizer.lr = 3;
  config.scheme_options["ps"] = GetParam().options();
  const RunRecord row = run(plan_training(config, "ps", GetParam().world));
  const RunRecord definition = definition_of(config, "ps", GetParam().world);
  EXPECT_GT(row.ranks[0].skipped_steps, 0);
  EXPECT_THAT(wrong_parameters(row, definition), IsEmpty());
  EXPECT_THAT(wrong_losses(row, definition), IsEmpty());
}

TEST_P(SumGroups, AccumulateMicroBatches) {
  auto config = testing::accumulating();
  for (const Reduce reduce : {Reduce::last, Reduce::every})
    for (const double clip_norm : {0.0, 0.5}) {
      config.train.reduce = reduce;
      config.optimizer.clip_norm = clip_norm;
      expect_the_bits_of_the_definition(config);
    }
}

TEST_P(SumGroups, TrainBatchNorms) {
  auto config = testing::tiny_resnet();
  config.optimizer.kind = "sgd";
  config.train.evaluate_every = 2;
  config.train.evaluate_batches = 2;
  expect_the_bits_of_the_definition(config);
}

INSTANTIATE_TEST_SUITE_P(Ps, SumGroups, ::testing::ValuesIn(sum_group_cases), [](const auto& info) {
  const SumGroupCase& one = info.param;
  return fmt::format("world_{}_group_{}_{}_{}", one.world, one.group, name_of(one.placement),
                     one.servers);
});

ExperimentConfig in_groups(ExperimentConfig config, const ps::PsOptions& options) {
  config.scheme_options["ps"] = options;
  return config;
}

TEST(OrderOfSumGroups, IsThatOfHybridShardingAndNotThatOfSingle) {
  auto config = in_groups(tiny("gpt"), {.sum_group = 2});
  config.scheme_options["fsdp"] =
      peer::FsdpOptions{.shard = peer::Shard::hybrid_shard, .shard_group = 2};
  const RunRecord row = run(plan_training(config, "ps", 4));
  EXPECT_EQ(row.parameter_hashes, run(plan_training(config, "fsdp", 4)).parameter_hashes);
  const RunRecord single = reference_of(config, 4);
  EXPECT_NE(row.parameter_hashes, single.parameter_hashes) << "other sums, other bits";
  EXPECT_THAT(wrong_losses(row, single, 1e-5), IsEmpty());
}

TEST(OrderOfSumGroups, IsThatOfSingleIfAllWorkersAreOneGroup) {
  for (const std::int64_t group : {1, 4, 8}) {
    auto config = in_groups(testing::accumulating(), {.sum_group = group});
    EXPECT_FALSE(plan_training(config, "ps", 4).sums.own_order) << group;
    config.train.reduce = Reduce::every;
    EXPECT_EQ(plan_training(config, "ps", 4).sums.own_order, group > 1) << group;
  }
  EXPECT_TRUE(plan_training(in_groups(tiny("mlp"), {.sum_group = 2}), "ps", 4).sums.own_order);
}

TEST(OrderOfSumGroups, IsItsOwnWithJoinedBatchNormsToo) {
  auto config = in_groups(testing::tiny_resnet(), {.sum_group = 2});
  config.optimizer.kind = "sgd";
  for (const std::int64_t joined : {2, 4}) {
    config.model.batch_norm_group = joined;
    const RunRecord row = run(plan_training(config, "ps", 4));
    EXPECT_TRUE(row.plan.sums.own_order);
    EXPECT_THAT(violations(row, definition_of(config, "ps", 4)), IsEmpty()) << joined;
  }
}

TEST(SumGroupOptions, ThatMeanNothingAreRefused) {
  const auto refusal = [](const ps::PsOptions& options) {
    return complaint([&] { plan_training(in_groups(tiny("mlp"), options), "ps", 4); });
  };
  EXPECT_THAT(refusal({.sum_group = 3}),
              HasSubstr("scheme.ps.sum_group = 3 does not divide world 4; choose a divisor"));
  EXPECT_THAT(refusal({.sum_group = 0}), HasSubstr("scheme.ps.sum_group = 0 must be more than 0"));
  constexpr const char* bsp_alone =
      "scheme.ps.sum_group = 2 goes with consistency 'bsp' without backup workers alone";
  for (const auto consistency : {ps::Consistency::ssp, ps::Consistency::asp})
    EXPECT_THAT(refusal({.consistency = consistency, .sum_group = 2}), HasSubstr(bsp_alone));
  EXPECT_THAT(refusal({.backup_workers = 1, .sum_group = 2}), HasSubstr(bsp_alone));
  EXPECT_THAT(refusal({.servers = 3, .placement = Placement::mixed, .sum_group = 2}),
              HasSubstr("at most one dedicated server for each of 2 groups"));
}

/// The bytes that each rank of a role sends or receives, which is equally much but for headers and
/// for chunks that are not divided.
double mean_bytes(const RunRecord& row, std::string_view role, double RankRecord::*bytes) {
  double sum = 0, count = 0;
  for (const RankRecord& rank : row.ranks)
    if (rank.role == role) sum += rank.*bytes, ++count;
  return sum / count;
}

TEST(BytesOfSumGroups, AreThoseOfOneReplicaForEveryGroup) {
  auto config = tiny("mlp");
  config.model.width = 160;
  const RunRecord whole = run(plan_training(in_groups(config, {}), "ps", 4));
  const RunRecord row = run(plan_training(in_groups(config, {.sum_group = 2}), "ps", 4));
  for (const auto bytes : {&RankRecord::bytes_sent_per_step, &RankRecord::bytes_received_per_step})
    EXPECT_NEAR(mean_bytes(row, "server", bytes), mean_bytes(whole, "server", bytes) / 2,
                0.01 * mean_bytes(whole, "server", bytes));
  const double model = 4e-6 * static_cast<double>(row.parameters);
  ASSERT_EQ(row.figures.size(), 1u);
  EXPECT_EQ(row.figures[0].name, "sent to servers");
  EXPECT_NEAR(row.figures[0].mean, model / 2, 0.02 * model);
}

TEST(BytesOfSumGroups, OfServersColocatedWithTheirWorkersDoNotLeaveTheProcess) {
  auto config = tiny("mlp");
  config.model.width = 160;
  const RunRecord row = run(plan_training(
      in_groups(config, {.servers = 2, .placement = Placement::colocated, .sum_group = 2}), "ps",
      2));
  ASSERT_EQ(row.figures.size(), 1u);
  EXPECT_LT(row.figures[0].mean, 1e-3) << "greetings alone";
  const double model = 4 * static_cast<double>(row.parameters);
  EXPECT_NEAR(row.bytes_minimum_per_step, model, 1) << "half of it is summed, and half gathered";
  EXPECT_NEAR(testing::busiest(row), model, 0.01 * model);
}

TEST(BytesOfSumGroups, AreTheFewestWhereverTheServersAreColocated) {
  auto config = tiny("mlp");
  config.model.width = 160;
  for (const std::int64_t group : {2, 4})
    for (const std::int64_t servers : {1, 2, 3, 4}) {
      const bool unequal = servers > group && servers % group != 0;
      const ps::PsOptions options{.servers = servers,
                                  .placement = Placement::colocated,
                                  .sum_group = group,
                                  .partition_mb = 0.004};
      const RunRecord row = run(plan_training(in_groups(config, options), "ps", 4));
      const double model = 4 * static_cast<double>(row.parameters);
      // Two of three servers share what their workers push, a quarter of the model each.
      const double least =
          unequal ? model * (1 + 1 / 4.0 + 2 / 3.0 - 1 / 4.0) : row.bytes_minimum_per_step;
      EXPECT_NEAR(testing::busiest(row), least, 0.02 * least)
          << servers << " colocated servers, groups of " << group;
    }
}

RunRecord run_groups(const RunPlan& plan) {
  return make_row(plan, simulate(plan, [](const Progress&) {}));
}

TEST(SimulatedSumGroups, EndWithTheBitsOfTheCpu) {
  for (const Placement placement : {Placement::dedicated, Placement::colocated})
    for (const double clip_norm : {0.0, 0.5}) {
      auto config = in_groups(tiny("gpt"), {.servers = 2, .placement = placement, .sum_group = 2});
      config.train.evaluate_every = 2;
      config.optimizer.clip_norm = clip_norm;
      const RunRecord real = run(plan_training(config, "ps", 4));
      config = simulated(config, testing::small_cluster(2));
      config.cluster->machines = 2;
      config.sim.numerics = true;
      const RunPlan plan = plan_training(config, "ps", 4);
      EXPECT_TRUE(plan.sums.own_order);
      EXPECT_THAT(violations(run_groups(plan), real), IsEmpty());
    }
}

/// 67 MB of parameters on 4 machines of 8 V100, and 4 for servers, on 10 Gb/s Ethernet; a step
/// computes next to nothing.
ExperimentConfig groups_bound_by_the_network() {
  ExperimentConfig config =
      simulated(tiny("mlp"), read_cluster(RINGSIDE_CLUSTERS "/v100-8x8-ethernet-10.toml"));
  config.data.kind = "synthetic";
  config.model.width = 1448;
  config.model.layers = 8;
  config.train.global_batch = 32;
  config.train.steps = 3;
  config.train.warmup = 2;
  config.train.timeout_s = 3600;
  config.optimizer.kind = "sgd";
  config.sim.servers_apart = true;
  return config;
}

/// The bounds of BytePS (Jiang et al., OSDI 2020, section 4.1) in units of M / B, the bytes of the
/// model over the bytes a second of a machine's card, for 4 machines.
struct GroupBound {
  std::string name;
  ps::PsOptions options;
  double passes = 0;
  double most = 0;  // of the bound
};

class SumGroupBounds : public ::testing::TestWithParam<GroupBound> {};
INSTANTIATE_TEST_SUITE_P(
    OfBytePs, SumGroupBounds,
    ::testing::Values(
        GroupBound{"dedicated", {.servers = 4}, 1, 1.1},
        GroupBound{"colocated", {.servers = 32, .placement = Placement::colocated}, 1.5, 1.05},
        GroupBound{"mixed", {.servers = 2, .placement = Placement::mixed}, 1.2, 1.2}),
    [](const auto& info) { return info.param.name; });

/// Without groups each of these takes 8 times as long.
TEST_P(SumGroupBounds, AreThoseOfOneReplicaForEveryMachine) {
  const GroupBound& bound = GetParam();
  ps::PsOptions options = bound.options;
  options.sum_group = 8;
  options.partition_mb = 0.06;
  const RunPlan plan = plan_training(in_groups(groups_bound_by_the_network(), options), "ps", 32);
  const RunRecord row = run_groups(plan);
  const double model_mb = 4e-6 * static_cast<double>(row.parameters);
  const double ratio = row.step_ms.median / (bound.passes * model_mb / plan.cluster->nic.gbs);
  EXPECT_GE(ratio, 0.99) << "faster than the bytes can travel";
  EXPECT_LE(ratio, bound.most);
  RecordProperty("ratio", fmt::format("{:.3f}", ratio));
  if (bound.options.placement != Placement::dedicated) return;
  // Servers on machines of their own have all their bytes over the network's cards.
  for (const auto bytes : {&RankRecord::bytes_sent_per_step, &RankRecord::bytes_received_per_step})
    EXPECT_NEAR(mean_bytes(row, "server", bytes), 1e6 * model_mb, 2e4 * model_mb);
}

TEST(SumGroupsInACluster, TakeAboutAnEighthOfTheTimeOfAsManyReplicas) {
  auto config = groups_bound_by_the_network();
  config.model.layers = 4;
  const auto step_ms = [&](const ps::PsOptions& options) {
    return run_groups(plan_training(in_groups(config, options), "ps", 32)).step_ms.median;
  };
  const double ratio = step_ms({.servers = 4, .partition_mb = 0.5}) /
                       step_ms({.servers = 4, .sum_group = 8, .partition_mb = 0.06});
  EXPECT_GT(ratio, 6);
  EXPECT_LT(ratio, 8.1);
  RecordProperty("ratio", fmt::format("{:.3f}", ratio));
}

}  // namespace
}  // namespace ringside::runner
