// Runs that go on from a checkpoint: they end with the bits of the unbroken run, under whatever
// scheme and at whatever world they go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "peer/fsdp/fsdp.h"
#include "ps/schemes/dp.h"
#include "ps/schemes/ps.h"
#include "tests/schemes/checkpointed_runs.h"
#include "tests/schemes/conformance.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using peer::Shard;
using testing::complaint;
using testing::going_on;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::reference_of;
using testing::run;
using testing::saving;
using ::testing::SizeIs;
using testing::TemporaryFolder;
using testing::tiny;
using testing::wrong_evaluations;
using testing::wrong_losses;
using testing::wrong_parameters;

/// A scheme at a world, with what decides where its state lives.
struct Kept {
  const char* scheme;
  int world;
  Offload offload = Offload::none;
  Shard shard = Shard::full_shard;  // of fsdp
  int shard_group = 0;
  ps::PsOptions ps{};
  ps::Placement master = ps::Placement::colocated;  // of dp

  RunPlan plan(ExperimentConfig config) const {
    config.train.offload = offload;
    config.train.reduce = Reduce::last;
    config.scheme_options["ps"] = ps;
    config.scheme_options["dp"] = ps::DpOptions{.placement = master};
    if (scheme == std::string("fsdp"))
      config.scheme_options["fsdp"] = peer::FsdpOptions{.shard = shard, .shard_group = shard_group};
    if (scheme == std::string("single")) {
      config.scheme_options["single"] = SingleOptions{.replicas = world};
      return plan_training(config, "single", 1);
    }
    return plan_training(config, scheme, world);
  }
  std::string name() const {
    if (scheme == std::string("dp")) return fmt::format("dp_world_{}_{}", world, name_of(master));
    if (scheme == std::string("ps"))
      return fmt::format("ps_world_{}_{}_{}_group_{}_{}", world, ps.servers, name_of(ps.placement),
                         ps.sum_group, name_of(ps.pull));
    return fmt::format("{}_world_{}_{}_{}", scheme, world, name_of(shard), name_of(offload));
  }
};
/// A run with servers, which have several chunks each.
Kept servers(int world, ps::PsOptions options) {
  options.partition_mb = 0.01;
  return {.scheme = "ps", .world = world, .ps = options};
}

class Checkpoints : public ::testing::TestWithParam<Kept> {};

TEST_P(Checkpoints, LeaveTheRunAsItIsAndItsRestEndsWithItsBits) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    auto config = tiny("gpt");
    config.train.precision = precision;
    config.train.evaluate_every = 2;
    config.train.evaluate_batches = 2;
    config.optimizer.clip_norm = 0.5;
    const RunPlan plan = GetParam().plan(config);
    const RunRecord unbroken = run(plan);
    const TemporaryFolder folder;
    const RunRecord saved = saving(plan, folder);
    for (const RunRecord& row : {saved, going_on(plan, folder, 1), going_on(plan, folder, 3)}) {
      EXPECT_THAT(wrong_parameters(row, unbroken), IsEmpty());
      EXPECT_THAT(wrong_losses(row, unbroken), IsEmpty()) << "those before the checkpoint too";
      EXPECT_THAT(wrong_evaluations(row, unbroken), IsEmpty());
      EXPECT_EQ(row.skipped_steps, unbroken.skipped_steps);
    }
  }
}

TEST_P(Checkpoints, HaveEveryValueOnceAndNothingOfRanks) {
  const RunPlan plan = GetParam().plan(tiny("gpt"));
  const TemporaryFolder folder;
  saving(plan, folder, false);
  const Checkpoint whole(checkpoints_in(folder.path()).at(2));
  const std::int64_t all = whole.manifest().parameters;
  EXPECT_THAT(whole.state(), ::testing::UnorderedElementsAre(Pair(StateKey{"parameters"}, all),
                                                             Pair(StateKey{"first_moment"}, all),
                                                             Pair(StateKey{"second_moment"}, all)));
  whole.verify();
}

INSTANTIATE_TEST_SUITE_P(
    Schemes, Checkpoints,
    ::testing::Values(Kept{"single", 1}, Kept{"single", 3}, Kept{"ddp", 1}, Kept{"ddp", 3},
                      Kept{"fsdp", 3}, Kept{"fsdp", 4, Offload::none, Shard::hybrid_shard, 2},
                      Kept{"fsdp", 3, Offload::none, Shard::on_demand}, Kept{"zero1", 3},
                      Kept{"zero2", 2}, Kept{"zero3", 4}, Kept{"ddp", 2, Offload::optimizer},
                      Kept{"fsdp", 2, Offload::optimizer}, Kept{"fsdp", 2, Offload::parameters}),
    [](const auto& info) { return info.param.name(); });

INSTANTIATE_TEST_SUITE_P(
    Servers, Checkpoints,
    ::testing::Values(
        servers(1, {.servers = 1}), servers(3, {.servers = 2}),
        servers(2, {.servers = 2, .placement = ps::Placement::colocated}),
        servers(3, {.servers = 1, .placement = ps::Placement::mixed}),
        servers(2, {.servers = 1, .pull = ps::Pull::barrier}),
        servers(4, {.servers = 2, .sum_group = 2}),
        servers(4, {.servers = 4, .placement = ps::Placement::colocated, .sum_group = 4}),
        Kept{.scheme = "dp", .world = 3},
        Kept{.scheme = "dp", .world = 2, .master = ps::Placement::dedicated}),
    [](const auto& info) { return info.param.name(); });

/// Any scheme goes on from any other's checkpoint at the same world.
TEST(CheckpointsOfOthers, GoOnWithTheBitsOfTheUnbrokenRun) {
  const std::vector<Kept> all = {{"single", 3},
                                 {"ddp", 3},
                                 {"fsdp", 3},
                                 {"zero1", 3},
                                 {"zero2", 3, Offload::optimizer},
                                 {"fsdp", 3, Offload::parameters},
                                 servers(3, {.servers = 2}),
                                 servers(3, {.placement = ps::Placement::mixed}),
                                 {.scheme = "dp", .world = 3}};
  auto config = tiny("gpt");
  config.train.precision = Precision::bf16;
  const RunRecord unbroken = reference_of(config, 3);
  for (const Kept& from : all) {
    const TemporaryFolder folder;
    saving(from.plan(config), folder);
    for (const Kept& to : all) {
      const RunRecord row = going_on(to.plan(config), folder, 2);
      EXPECT_THAT(wrong_parameters(row, unbroken), IsEmpty()) << from.scheme << to.scheme;
      EXPECT_THAT(wrong_losses(row, unbroken), IsEmpty()) << from.scheme << to.scheme;
    }
  }
}

/// Saved at world 4, loaded at others: the parameters are the same bits, and all schemes go on
/// alike.
TEST(CheckpointsOfOthers, AreReadAtAnyWorld) {
  const auto config = tiny("gpt");
  for (const Kept& from : {Kept{"ddp", 4}, Kept{"fsdp", 4}, servers(4, {.servers = 3})}) {
    const TemporaryFolder folder;
    const RunRecord unbroken = saving(from.plan(config), folder);
    for (const int world : {1, 2, 3, 8}) {
      const RunRecord at_end = going_on(Kept{"fsdp", world}.plan(config), folder, 5);
      EXPECT_EQ(at_end.parameter_hashes, unbroken.parameter_hashes) << world;
      const RunRecord reference = going_on(Kept{"single", world}.plan(config), folder, 2);
      std::set<std::vector<std::string>> hashes = {reference.parameter_hashes};
      for (const char* scheme : {"ddp", "fsdp", "zero1"})
        hashes.insert(going_on(Kept{scheme, world}.plan(config), folder, 2).parameter_hashes);
      for (const Kept& to : {servers(world, {.servers = 2}), Kept{.scheme = "dp", .world = world}})
        hashes.insert(going_on(to.plan(config), folder, 2).parameter_hashes);
      EXPECT_THAT(hashes, SizeIs(1)) << world;
    }
  }
}

TEST(CheckpointsOfOthers, HaveRunningStatistics) {
  auto config = testing::tiny_resnet();
  config.train.evaluate_every = 2;
  config.train.evaluate_batches = 1;
  config.optimizer.kind = "sgd";
  const RunRecord unbroken = run(Kept{"ddp", 3}.plan(config));
  const TemporaryFolder folder;
  saving(Kept{"ddp", 3}.plan(config), folder);
  for (const Kept& to : {Kept{"ddp", 3}, Kept{"single", 3}, Kept{"fsdp", 3},
                         servers(3, {.servers = 2}), Kept{.scheme = "dp", .world = 3}}) {
    const RunRecord row = going_on(to.plan(config), folder, 3);
    EXPECT_THAT(wrong_parameters(row, unbroken), IsEmpty()) << to.scheme;
    EXPECT_THAT(wrong_evaluations(row, unbroken), IsEmpty()) << to.scheme;
  }
  EXPECT_THAT(complaint([&] {
                going_on(Kept{"ddp", 2}.plan(config), folder, 3);
              }),
              HasSubstr("steps had 3 micro-batches"));
}

TEST(CheckpointsOfOthers, OfAnotherRunAreRefusedWithBothValues) {
  const auto config = tiny("gpt");
  const TemporaryFolder folder;
  saving(Kept{"ddp", 2}.plan(config), folder);
  const std::string path = checkpoints_in(folder.path()).at(5).string();
  auto other = config;
  other.optimizer.lr *= 2;
  other.train.seed = 17;
  const std::string text = complaint([&] { check_same_run(Kept{"ddp", 2}.plan(other), path); });
  EXPECT_THAT(text, HasSubstr(fmt::format("optimizer.lr was {} and is {}", config.optimizer.lr,
                                          other.optimizer.lr)));
  EXPECT_THAT(text, HasSubstr("train.seed was 1 and is 17"));
}

/// What a checkpoint lacks, or a value of it that was changed, is not made up.
TEST(CheckpointsOfOthers, ThatAreDamagedEndTheRun) {
  const RunPlan plan = Kept{"ddp", 2}.plan(tiny("gpt"));
  const TemporaryFolder folder;
  saving(plan, folder);
  const std::filesystem::path file = checkpoints_in(folder.path()).at(5) / rank_file_name(1);
  {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(5000);
    bytes.put('\x7f');
  }
  EXPECT_THAT(complaint([&] { going_on(plan, folder, 5); }), HasSubstr(file.filename().string()));
}

}  // namespace
}  // namespace ringside::runner
