// Time and memory of simulations on this machine: GPT-3 175B on up to 1,024 GPUs, and parameter
// servers with 512 workers.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

struct Cost {
  double seconds;    // of processor time: others may use the machine too
  double gigabytes;  // largest resident set of all processes of the program
};

rusage use_of_children() {
  rusage use{};
  getrusage(RUSAGE_CHILDREN, &use);
  return use;
}

double processor_seconds(const rusage& use) {
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

/// Runs `train` with these arguments, whose output must contain `expected`.
Cost train(const std::vector<std::string>& arguments, const std::string& expected) {
  const testing::TemporaryFolder folder;
  std::vector<std::string> all = {"train"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const double before = processor_seconds(use_of_children());
  const testing::Ended ended = testing::Program(RINGSIDE_PROGRAM, all, folder.path()).wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_NE(ended.out.find(expected), std::string::npos) << ended.out;
  const rusage use = use_of_children();
  return {processor_seconds(use) - before, static_cast<double>(use.ru_maxrss) * 1024 * 1e-9};
}

Cost train_gpt3(const std::string& world, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {RINGSIDE_EXPERIMENTS "/simulated/gpt3-175b.toml",
                                        "--scheme", "fsdp", "--world", world};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return train(arguments, "175221817344 parameters");
}

TEST(Gpt3, AStepOn64GpusTakesSeconds) {
  // Parameters, gradients and optimizer state, all in fp32, leave so little room on 64 devices of
  // 80 GB that only one unit is gathered at a time.
  const Cost cost =
      train_gpt3("64", {"--set", "train.global_batch=64", "--set", "scheme.fsdp.prefetch=0"});
  EXPECT_LT(cost.seconds, 5);
}

TEST(Gpt3, AStepOn1024GpusTakesAMinuteAnd4GbAtMost) {
  const Cost cost = train_gpt3("1024", {});
  EXPECT_LT(cost.seconds, 60);
  EXPECT_LT(cost.gigabytes, 4);
  RecordProperty("seconds", std::to_string(cost.seconds));
  RecordProperty("gigabytes", std::to_string(cost.gigabytes));
}

/// 128 replicas of 8 stages, with 16 micro-batches each.
TEST(Gpt3, AStepOfAPipelineOn1024GpusTakesAMinuteAnd4GbAtMost) {
  for (const bool interleaved : {false, true}) {
    const std::string schedule = interleaved ? "interleaved" : "1f1b";
    const Cost cost =
        train({RINGSIDE_EXPERIMENTS "/simulated/gpt3-175b-pipeline.toml", "--scheme", "zero1",
               "--world", "1024", "--set", interleaved ? "pipeline.chunks=2" : "pipeline.chunks=1",
               "--set", "pipeline.schedule=" + schedule},
              "parameters");
    EXPECT_LT(cost.seconds, 60) << schedule;
    EXPECT_LT(cost.gigabytes, 4) << schedule;
  }
}

class SimulatedServers : public ::testing::TestWithParam<const char*> {};

/// A tiny GPT: nearly all of the cost is the messages between workers and servers.
TEST_P(SimulatedServers, ServeThreeStepsOf512WorkersIn10Seconds) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "tiny.toml";
  std::ofstream(file) << R"(
[model]
kind = "gpt"
layers = 2
width = 64
heads = 2
context = 32
vocabulary = 256
[data]
kind = "synthetic"
[train]
steps = 3
warmup = 1
global_batch = 512
micro_batch = 1
timeout_s = 36000
[device]
kind = "sim"
cluster = ")" RINGSIDE_EXPERIMENTS R"(/clusters/a100-128x8.toml"
)";
  const Cost cost = train(
      {file.string(), "--scheme", "ps", "--world", "512", "--set",
       std::string("scheme.ps.servers=") + GetParam(), "--set", "scheme.ps.placement=dedicated"},
      "samples/s");
  EXPECT_LT(cost.seconds, 10);
  RecordProperty("seconds", std::to_string(cost.seconds));
}

INSTANTIATE_TEST_SUITE_P(Number, SimulatedServers, ::testing::Values("16", "64"),
                         [](const auto& info) { return std::string("Of") + info.param; });

}  // namespace
}  // namespace ringside
