// Runs that need more memory than their machine, or their container, has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "experiments/runner/plan/checks.h"
#include "experiments/runner/plan/planner.h"
#include "tests/experiments/program_test.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using ::testing::AllOf;
using testing::complaint;
using ::testing::HasSubstr;

class MemoryNeed : public ProgramTest {
 protected:
  MemoryNeed() {
    small_gpt(64, 64,
              "steps = 2\nwarmup = 1\nglobal_batch = 16\nmicro_batch = 8\n[scheme.fsdp]\n"
              "min_unit_parameters = 0\n");
  }
  RunPlan plan(const std::string& scheme, const std::vector<std::string>& settings = {}) {
    std::vector<std::string> all = settings;
    all.push_back("data.path=" + path("text.txt").string());
    return plan_training(read_experiment(path("trial.toml"), all).common, scheme, 2);
  }
  /// The memory of the devices of a run's ranks at their peaks.
  double measured(const std::string& scheme, const std::vector<std::string>& settings) {
    std::vector<std::string> words = {"train",   "trial.toml", "--scheme", scheme,
                                      "--world", "2",          "--output", "row.json"};
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    const testing::Ended ended = run(words);
    EXPECT_EQ(ended.status, 0) << ended.err;
    double sum = 0;
    const auto row = nlohmann::json::parse(folder_.read("row.json")).at("row");
    for (const auto& rank : row.at("ranks")) sum += rank.at("memory").at("peak").get<double>();
    return sum;
  }
};

TEST_F(MemoryNeed, IsRefusedWithBothFiguresBeforeAnythingRuns) {
  const std::string said = complaint([&] {
    check_memory({plan("ddp")}, {5e6, "the control group of this process"});
  });
  EXPECT_THAT(said, AllOf(HasSubstr("run ddp-w2-r0: its 2 workers need at least "),
                          HasSubstr(" MB of memory for the model's state and activations, but the "
                                    "control group of this process has 5.0 MB; use a smaller")));
  EXPECT_EQ(complaint([&] { check_memory({plan("ddp")}, {1e12, "this machine"}); }), "nothing");
}

// A run that fits is never refused, and a run that needs twice what there is always is.
TEST_F(MemoryNeed, IsWhatRunsHold) {
  for (const auto& one : {std::pair("ddp", "train.recompute=none"),
                          {"ddp", "train.recompute=full"},
                          {"ddp", "train.precision=bf16"},
                          {"fsdp", "train.recompute=none"},
                          {"ps", "train.recompute=none"}}) {
    const std::string scheme = one.first, setting = one.second;
    const double held = measured(scheme, {setting});
    EXPECT_EQ(complaint([&] {
                check_memory({plan(scheme, {setting})}, {held, "x"});
              }),
              "nothing")
        << scheme << " " << setting;
    EXPECT_NE(complaint([&] {
                check_memory({plan(scheme, {setting})}, {held / 2, "x"});
              }),
              "nothing")
        << scheme << " " << setting;
  }
}

TEST_F(MemoryNeed, OnlyOfRunsOnThisProcessor) {
  RunPlan other = plan("ddp");
  other.homes = {{"host0", "10.0.0.1", 0}, {"host1", "10.0.0.2", 1}};
  EXPECT_EQ(complaint([&] { check_memory({other}, {1, "x"}); }), "nothing") << "placement.h";
  other = plan("ddp");
  other.device.kind = "cuda";
  EXPECT_EQ(complaint([&] { check_memory({other}, {1, "x"}); }), "nothing");
}

}  // namespace
}  // namespace ringside::runner
