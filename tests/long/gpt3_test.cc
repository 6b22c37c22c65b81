// GPT-3 175B in a simulated cluster: what it costs the machine that simulates it.
#include <gtest/gtest.h>
#include <sys/resource.h>

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

Cost train(const std::string& world, const std::vector<std::string>& more) {
  const testing::TemporaryFolder folder;
  std::vector<std::string> arguments = {
      "train", RINGSIDE_EXPERIMENTS "/gpt3-175b.toml", "--scheme", "fsdp", "--world", world};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const double before = processor_seconds(use_of_children());
  const testing::Ended ended = testing::Program(RINGSIDE_PROGRAM, arguments, folder.path()).wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_NE(ended.out.find("175221817344 parameters"), std::string::npos) << ended.out;
  const rusage use = use_of_children();
  return {processor_seconds(use) - before, static_cast<double>(use.ru_maxrss) * 1024 * 1e-9};
}

TEST(Gpt3, AStepOn64GpusTakesSeconds) {
  // Parameters, gradients and optimizer state, all in fp32, leave so little room on 64 devices of
  // 80 GB that only one unit is gathered at a time.
  const Cost cost =
      train("64", {"--set", "train.global_batch=64", "--set", "scheme.fsdp.prefetch=0"});
  EXPECT_LT(cost.seconds, 5);
}

TEST(Gpt3, AStepOn1024GpusTakesAMinuteAnd4GbAtMost) {
  const Cost cost = train("1024", {});
  EXPECT_LT(cost.seconds, 60);
  EXPECT_LT(cost.gigabytes, 4);
  RecordProperty("seconds", std::to_string(cost.seconds));
  RecordProperty("gigabytes", std::to_string(cost.gigabytes));
}

}  // namespace
}  // namespace ringside
