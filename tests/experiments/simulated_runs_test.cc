// The real program with simulated devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using testing::Ended;

using ::testing::AllOf;
using ::testing::HasSubstr;

class SimulatedRuns : public ProgramTest {
 protected:
  SimulatedRuns() {
    experiment(R"([model]
layers = 2
heads = 2
width = 32
context = 16
[data]
kind = "synthetic"
[train]
steps = 3
warmup = 1
global_batch = 8
[device]
kind = "sim"
cluster = ")" RINGSIDE_CLUSTERS R"(/dgx-a100.toml"
[compare]
worlds = [1, 8]
repeats = 1
)");
  }
};

TEST_F(SimulatedRuns, CompareFillsTheTableTheRowsAndTheTraces) {
  const Ended ended = run({"compare", "trial.toml"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("SIMULATED on cluster dgx-a100"));
  for (const char* scheme : {"single", "dp", "ps", "ddp", "fsdp"})
    EXPECT_THAT(ended.out, HasSubstr(std::string("| ") + scheme));
  EXPECT_THAT(ended.out, ::testing::Not(HasSubstr("FAILED")));
  EXPECT_THAT(folder_.read("results/trial/traces/ddp-w8-r0.json"),
              HasSubstr("all-reduce bucket 0"));
}

TEST_F(SimulatedRuns, ErrorsOfTheClusterGiveAnInterval) {
  const Ended ended = run({"compare", "trial.toml", "--schemes", "ddp", "--worlds", "8", "--set",
                           "train.precision=bf16"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  const auto cases = nlohmann::json::parse(folder_.read("results/trial/summary.json"))["cases"];
  const auto& ddp = cases.back();
  ASSERT_EQ(ddp["scheme"], "ddp");
  const double step = ddp["step_ms"], low = ddp["simulated_interval_ms"][0],
               high = ddp["simulated_interval_ms"][1];
  // A step so short is waiting for collectives, whose error is that of the catalog; and so is that
  // of steps.
  EXPECT_GT(high / step, 1.08);
  EXPECT_LT(high / step, 1.08 * 1.135 + 1e-6);
  EXPECT_NEAR(step / low, high / step, 0.03);
  EXPECT_THAT(ended.out, HasSubstr("interval"));
  const Ended without = run({"compare", "trial.toml", "--schemes", "ddp", "--worlds", "8", "--set",
                             "train.precision=bf16", "--set", "sim.intervals=false"});
  EXPECT_EQ(without.status, 0) << without.err;
  EXPECT_THAT(without.out, ::testing::Not(HasSubstr("interval")));
}

TEST_F(SimulatedRuns, TheSameFileGivesTheSameTimesToTheLastBit) {
  std::vector<nlohmann::json> rows;
  for (const char* output : {"a.json", "b.json"}) {
    const Ended ended =
        run({"train", "trial.toml", "--scheme", "ps", "--world", "4", "--output", output});
    EXPECT_EQ(ended.status, 0) << ended.err;
    rows.push_back(nlohmann::json::parse(folder_.read(output))["row"]);
  }
  EXPECT_GT(rows[0]["step_ms"]["median"].get<double>(), 0);
  EXPECT_EQ(rows[0], rows[1]);
}

TEST_F(SimulatedRuns, OutOfMemoryIsARowThatSaysWhoHeldWhat) {
  const Ended ended =
      run({"train", "trial.toml", "--scheme", "ddp", "--world", "2", "--set", "model.width=16384"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("simulation: rank"), HasSubstr("a100-sxm-80"),
                               HasSubstr("no memory for"), HasSubstr("held: parameter")));
}

TEST_F(SimulatedRuns, WhatCannotBeIsRefusedBeforeAnythingIsWritten) {
  const auto refused = [&](std::vector<std::string> more, const std::string& why) {
    std::vector<std::string> arguments = {"compare", "trial.toml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ended ended = run(arguments);
    EXPECT_EQ(ended.status, 2);
    EXPECT_THAT(ended.err, HasSubstr(why));
    EXPECT_FALSE(std::filesystem::exists(path("results")));
  };
  refused({"--worlds", "16", "--set", "train.global_batch=16"},
          "world 16 needs 16 devices, and cluster dgx-a100 has 8");
  refused({"--set", "device.cluster=\"\""}, "needs device.cluster");
  refused({"--set", "device.cluster=nowhere.toml"}, "nowhere.toml");
  folder_.write("wrong.toml",
                "include = \"" RINGSIDE_CLUSTERS "/dgx-a100.toml\"\n[cluster]\nmachnes = 2\n");
  refused({"--set", "device.cluster=wrong.toml"}, "wrong.toml:3");
}

}  // namespace
}  // namespace ringside
