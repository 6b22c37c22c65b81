// The virtual times of small runs must stay the same to the last bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "experiments/runner/run/simulation.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

/// The times of all steps of every rank, and the spans that the rank reports of its last steps.
/// Numbers are hexadecimal, so that no bit is lost.
std::string timeline(const std::string& scheme) {
  auto config = testing::tiny("gpt");
  config.device.kind = "sim";
  config.cluster = testing::small_cluster(2);
  config.train.steps = 3;
  config.train.global_batch = 8;
  const RunPlan plan = plan_training(config, scheme, 2);
  std::string out;
  for (const RankRecord& rank : simulate(plan, [](const Progress&) {})) {
    for (std::size_t s = 0; s < rank.steps.size(); ++s)
      out += fmt::format("rank {} step {} {:a}\n", rank.rank, s, rank.steps[s].total);
    for (const Slice& slice : rank.slices)
      out += fmt::format("rank {} {} {} {:a} {:a}\n", rank.rank, slice.activity, slice.name,
                         slice.begin_s, slice.duration_s);
  }
  return out;
}

std::string golden(const std::string& name) {
  std::ifstream in(fmt::format("{}/{}.txt", RINGSIDE_GOLDEN, name));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class GoldenTimeline : public ::testing::TestWithParam<std::string> {};

/// Runs in a process of its own, because the simulated clock of a process goes on from one world to
/// the next. To renew a golden file after a change that is meant to change times, take the text
/// that this prints.
TEST_P(GoldenTimeline, IsTheSameToTheLastBit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::fputs(timeline(GetParam()).c_str(), stderr);
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), ::testing::StrEq(golden(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Schemes, GoldenTimeline, ::testing::Values("ddp", "fsdp", "dp", "ps"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace ringside::runner
