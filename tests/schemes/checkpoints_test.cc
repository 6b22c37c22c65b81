// Runs that go on from a checkpoint: they end with the bits of the unbroken run, under whatever
// scheme and at whatever world they go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/checkpoint/checkpoint.h"
#include "experiments/runner/run/going_on.h"
#include "peer/fsdp/fsdp.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside::runner {
namespace {

using peer::Shard;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::reference_of;
using testing::run;
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

  RunPlan plan(ExperimentConfig config) const {
    config.train.offload = offload;
    config.train.reduce = Reduce::last;
    if (scheme == std::string("fsdp"))
      config.scheme_options["fsdp"] = peer::FsdpOptions{.shard = shard, .shard_group = shard_group};
    if (scheme == std::string("single")) {
      config.scheme_options["single"] = SingleOptions{.replicas = world};
      return plan_training(config, "single", 1);
    }
    return plan_training(config, scheme, world);
  }
};

/// The run, which writes a checkpoint after every step into the folder.
RunRecord saving(RunPlan plan, const TemporaryFolder& folder, bool asynchronous = true) {
  plan.checkpoint = {folder.path().string(), 1, 100, asynchronous};
  RunRecord row = run(plan);
  for (const RankRecord& rank : row.ranks) {
    EXPECT_TRUE(rank.checkpoints.has_value());
    if (!rank.checkpoints) continue;
    EXPECT_EQ(rank.checkpoints->failure, "");
    EXPECT_EQ(rank.checkpoints->written, plan.train.steps);
  }
  EXPECT_THAT(checkpoints_in(folder.path()), SizeIs(static_cast<std::size_t>(plan.train.steps)));
  return row;
}
/// The run that goes on from the checkpoint after `step` steps.
RunRecord going_on(RunPlan plan, const TemporaryFolder& folder, std::int64_t step) {
  plan.resume = checkpoints_in(folder.path()).at(step).string();
  check_same_run(plan, plan.resume);
  return run(plan);
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
    [](const auto& info) {
      const Kept& one = info.param;
      return fmt::format("{}_world_{}_{}_{}", one.scheme, one.world, name_of(one.shard),
                         name_of(one.offload));
    });

/// Any scheme goes on from any other's checkpoint at the same world.
TEST(CheckpointsOfOthers, GoOnWithTheBitsOfTheUnbrokenRun) {
  const std::vector<Kept> all = {{"single", 3},
                                 {"ddp", 3},
                                 {"fsdp", 3},
                                 {"zero1", 3},
                                 {"zero2", 3, Offload::optimizer},
                                 {"fsdp", 3, Offload::parameters}};
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
  for (const Kept& from : {Kept{"ddp", 4}, Kept{"fsdp", 4}}) {
    const TemporaryFolder folder;
    const RunRecord unbroken = saving(from.plan(config), folder);
    for (const int world : {1, 2, 3, 8}) {
      const RunRecord at_end = going_on(Kept{"fsdp", world}.plan(config), folder, 5);
      EXPECT_EQ(at_end.parameter_hashes, unbroken.parameter_hashes) << world;
      const RunRecord reference = going_on(Kept{"single", world}.plan(config), folder, 2);
      std::set<std::vector<std::string>> hashes = {reference.parameter_hashes};
      for (const char* scheme : {"ddp", "fsdp", "zero1"})
        hashes.insert(going_on(Kept{scheme, world}.plan(config), folder, 2).parameter_hashes);
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
  for (const Kept& to : {Kept{"ddp", 3}, Kept{"single", 3}, Kept{"fsdp", 3}}) {
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
