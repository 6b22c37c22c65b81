// The real program with pipelines: stages by the times that `ringside calibrate` wrote, and what it
// says of losses that are not finite.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "experiments/runner/config/cluster_file.h"
#include "experiments/tools/calibrate/calibrate.h"
#include "experiments/tools/check/tiny_runs.h"
#include "tests/experiments/program_test.h"
#include "tests/support/small_cluster.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;

class MeasuredStages : public ProgramTest {
 protected:
  MeasuredStages() {
    if (!tools::check::can_simulate()) return;
    // A GPT whose head has almost all of the products, in two stages of even time.
    experiment(
        "[model]\nlayers = 4\nheads = 2\nwidth = 16\ncontext = 8\nvocabulary = 4096\n[data]\n"
        "path = \"text.txt\"\n[train]\nsteps = 2\nwarmup = 1\nglobal_batch = 4\nmicro_batch = 2\n"
        "[mesh]\npipeline = 2\n[pipeline]\nbalance = \"time\"\n[compare]\nschemes = [\"ddp\"]\n"
        "worlds = [2]\nrepeats = 1\nattempts = 1\nall_cores = false\n");
  }

  /// A machine of this name, on which it takes long to begin an operation, and nothing else.
  void calibrated_as(const std::string& name) const {
    sim::ClusterSpec cluster = testing::small_cluster(1);
    cluster.name = name;
    cluster.topology = sim::Topology::pcie;
    cluster.device.kind = sim::DeviceKind::cpu;
    cluster.device.cores = 4;
    cluster.device.launch_us = 1e5;
    cluster.collective.kind = sim::CollectiveKind::shm;
    cluster.collective.sum.points = cluster.collective.copy.points = {{1, 0.5}};
    folder_.write("results/machine.toml", runner::cluster_text(cluster, "Made up."));
  }

  testing::Ended trained() const {
    return run({"train", "trial.toml", "--scheme", "ddp", "--world", "2"});
  }
};

TEST_F(MeasuredStages, FollowTheFileOfThisMachine) {
  if (!tools::check::can_simulate()) GTEST_SKIP() << "this build has no simulated devices";
  EXPECT_THAT(trained().out, HasSubstr("stages from units 0, 5 of even floating-point operations"));
  std::filesystem::create_directory(path("results"));
  calibrated_as(tools::calibrate::calibration_name(1));
  const std::string measured = "stages from units 0, 3 of even measured time";
  EXPECT_THAT(trained().out, HasSubstr(measured));
  const testing::Ended compared = run({"compare", "trial.toml"});
  EXPECT_EQ(compared.status, 0) << compared.err;
  EXPECT_THAT(compared.out, HasSubstr("Mesh: ddp at world 2: data 1 x pipeline 2, data within a "
                                      "machine; 1f1b, " +
                                      measured + ".\n"));
}

TEST_F(MeasuredStages, DoNotFollowTheFileOfAnotherMachine) {
  if (!tools::check::can_simulate()) GTEST_SKIP() << "this build has no simulated devices";
  std::filesystem::create_directory(path("results"));
  calibrated_as("another machine");
  const testing::Ended ended = trained();
  EXPECT_THAT(ended.out, HasSubstr("of even floating-point operations"));
  EXPECT_THAT(ended.err, HasSubstr("Stages are even by operations, not by measured times: "
                                   "results/machine.toml describes 'another machine', but this "
                                   "machine is"));
  EXPECT_THAT(ended.err, HasSubstr("; `ringside calibrate --threads 1` measures it\n"));
}

/// A pipeline whose embedding is the only unit with finite outputs after the first update.
struct SpoiledPipeline {
  int pipeline = 2;
  const char* schedule = "1f1b";
  const char* cuts = "[]";
  const char* begins = "";  // what has the stage of block.0
};

class SpoiledPipelines : public ProgramTest, public ::testing::WithParamInterface<SpoiledPipeline> {
 protected:
  SpoiledPipelines() {
    experiment(
        "[model]\nlayers = 6\nheads = 2\nwidth = 16\ncontext = 8\n[data]\npath = \"text.txt\"\n"
        "[train]\nsteps = 4\nwarmup = 1\nglobal_batch = 8\nmicro_batch = 2\ntimeout_s = 6\n"
        "[optimizer]\nschedule = \"constant\"\nlr = 1e12\n");
  }
};

/// The last stage meets the loss; the unit is named that `single` names.
TEST_P(SpoiledPipelines, NameTheUnitOfTheModelWhoseOutputWasNotFiniteFirst) {
  const SpoiledPipeline& one = GetParam();
  const testing::Ended whole = run({"train", "trial.toml", "--scheme", "single", "--world", "1"});
  EXPECT_THAT(whole.err, HasSubstr("the loss is nan at step 2: the output of unit block.0 is the "
                                   "first that is not finite; lower optimizer.lr"));
  const auto words = [](const std::string& text) { return text.substr(text.find("the loss is")); };
  for (const int data : {1, 2}) {
    const testing::Ended ended = run({"train", "trial.toml", "--scheme", "ddp", "--world",
                                      std::to_string(data * one.pipeline), "--set",
                                      fmt::format("mesh.pipeline={}", one.pipeline), "--set",
                                      fmt::format("pipeline.cuts={}", one.cuts), "--set",
                                      fmt::format("pipeline.schedule={}", one.schedule)});
    EXPECT_NE(ended.status, 0);
    EXPECT_EQ(words(ended.err), words(whole.err)) << ended.err;
  }
}

INSTANTIATE_TEST_SUITE_P(
    WithBlock0, SpoiledPipelines,
    ::testing::Values(SpoiledPipeline{.begins = "in_stage_0"},
                      SpoiledPipeline{.cuts = "[1]", .begins = "first_in_stage_1_of_2"},
                      SpoiledPipeline{.pipeline = 3, .cuts = "[1, 4]", .begins = "in_stage_1_of_3"},
                      SpoiledPipeline{.schedule = "zb_v", .begins = "on_the_rank_of_the_losses"}),
    [](const auto& info) { return info.param.begins; });

}  // namespace
}  // namespace ringside
