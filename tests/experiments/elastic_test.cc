// Runs of the real program whose workers come and go: every one has the bits of its replay, which
// is one rank that computes what each world did.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using testing::Ended;
using ::testing::HasSubstr;

constexpr const char* proven = "| bit-identical to its definition (replayed)";

class Elastic : public ProgramTest {
 protected:
  Elastic() { small_gpt(16, 16, "steps = 40\nwarmup = 1\nglobal_batch = 12\n"); }

  /// Compares one scheme, whose run has `worlds`, with its replay.
  Ended compared(const std::string& scheme, const std::string& worlds,
                 const std::vector<std::string>& settings) const {
    std::vector<std::string> words = {"compare", "trial.toml", "--quick",          "--schemes",
                                      scheme,    "--results",  "results-" + scheme};
    for (const std::string& one : settings) words.insert(words.end(), {"--set", one});
    words.insert(words.end(), {"--set", "compare.worlds='" + worlds + "'"});
    return run(words);
  }
  nlohmann::json row_of(const std::string& scheme) const {
    return nlohmann::json::parse(lines_of("results-" + scheme + "/trial/rows.jsonl").back());
  }
  std::vector<std::string> lines_of(const std::string& file) const {
    std::ifstream in(path(file));
    std::vector<std::string> out;
    for (std::string line; std::getline(in, line);) out.push_back(line);
    return out;
  }
  /// The worlds that a row had, and the steps that were lost.
  static std::vector<int> worlds_of(const nlohmann::json& row) {
    std::vector<int> out;
    for (const auto& period : row.at("worlds")) out.push_back(period.at("world").get<int>());
    return out;
  }
  static void expect_equal_to_replay(const nlohmann::json& row) {
    for (const auto& period : row.at("worlds")) {
      EXPECT_LT(period.at("down_s").get<double>(), 60) << row.at("worlds");
      EXPECT_LE(period.at("left_s").get<double>(), 60) << row.at("worlds");
    }
    EXPECT_EQ(row.at("parameter_hashes"), row.at("replay").at("parameter_hashes"));
    EXPECT_EQ(row.at("loss"), row.at("replay").at("loss"));
    EXPECT_EQ(row.at("loss").size(), row.at("train").at("steps").get<std::size_t>());
  }
  static int lost_in(const nlohmann::json& row) {
    int out = 0;
    for (const auto& period : row.at("worlds")) out += period.at("lost_steps").get<int>();
    return out;
  }
};

/// What a killed worker leaves is in the host's memory, whoever had it.
TEST_F(Elastic, AKilledWorkerIsLeftOutAndTheStepIsMadeAgain) {
  for (const std::string scheme : {"ddp", "fsdp", "zero1"}) {
    const Ended ended = compared(
        scheme, "1:3", {"faults.plan=[\"kill worker 1 at step 12\"]", "train.evaluate_every=5"});
    ASSERT_EQ(ended.status, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr(proven));
    const nlohmann::json row = row_of(scheme);
    EXPECT_EQ(worlds_of(row), (std::vector<int>{3, 2})) << row.at("worlds");
    EXPECT_LE(lost_in(row), 1);
    expect_equal_to_replay(row);
    EXPECT_EQ(row.at("evaluations").size(), 8U);
  }
}

TEST_F(Elastic, ServersAndWorkersOfPsFormAnew) {
  const Ended ended =
      compared("ps", "1:3", {"faults.plan=[\"kill worker 2 at step 12\"]", "scheme.ps.servers=2"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr(proven));
  EXPECT_EQ(worlds_of(row_of("ps")), (std::vector<int>{3, 2})) << row_of("ps").at("worlds");
  expect_equal_to_replay(row_of("ps"));
}

TEST_F(Elastic, AKilledServerIsReplacedAndNobodyElseStartsAgain) {
  const Ended ended = compared(
      "ps", "2:3",
      {"faults.plan=[\"kill server 0 at step 12\"]", "faults.restarts=1", "scheme.ps.servers=2"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(worlds_of(row_of("ps")), (std::vector<int>{3, 3})) << row_of("ps").at("worlds");
  expect_equal_to_replay(row_of("ps"));
  EXPECT_LE(lost_in(row_of("ps")), 1);
}

TEST_F(Elastic, AReplacementComesAndTheWorldGrowsAgain) {
  const Ended ended = compared(
      "ddp", "1:3",
      {"faults.plan=[\"kill worker 0 at step 5\"]", "faults.restarts=1", "train.steps=6000"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr(proven));
  EXPECT_EQ(worlds_of(row_of("ddp")), (std::vector<int>{3, 2, 3})) << row_of("ddp").at("worlds");
  expect_equal_to_replay(row_of("ddp"));
}

TEST_F(Elastic, WorkersLeaveAndComeAfterAStepAndNoneIsLost) {
  for (const std::string scheme : {"fsdp", "ps"}) {
    const Ended ended =
        compared(scheme, "1:3",
                 {"faults.plan=[\"remove worker 1 at step 5\", \"add worker at step 8\"]",
                  "train.steps=3000"});
    ASSERT_EQ(ended.status, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr(proven)) << scheme;
    EXPECT_EQ(worlds_of(row_of(scheme)), (std::vector<int>{3, 2, 3}))
        << row_of(scheme).at("worlds");
    EXPECT_EQ(lost_in(row_of(scheme)), 0) << scheme;
    expect_equal_to_replay(row_of(scheme));
  }
}

/// 10 samples are 4, 3 and 3 at world 3.
TEST_F(Elastic, WorldsThatDoNotDivideTheBatchHaveUnevenShares) {
  const Ended ended = compared("ddp", "1:5",
                               {"faults.plan=[\"remove worker 0 at step 5\", "
                                "\"remove worker 2 at step 9\"]",
                                "train.global_batch=10"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(worlds_of(row_of("ddp")), (std::vector<int>{5, 4, 3})) << row_of("ddp").at("worlds");
  expect_equal_to_replay(row_of("ddp"));
}

/// Replicas of their own may be others where they are all equal.
TEST_F(Elastic, LocalStepsChangeTheirWorldAfterAnAveraging) {
  const Ended ended =
      compared("local_sgd", "1:3",
               {"faults.plan=[\"kill worker 1 at step 14\"]", "scheme.local_sgd.sync_every=4"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  const nlohmann::json row = row_of("local_sgd");
  EXPECT_EQ(worlds_of(row), (std::vector<int>{3, 2})) << row.at("worlds");
  EXPECT_EQ(row.at("worlds").at(1).at("from").get<int>() % 4, 0);
  expect_equal_to_replay(row);
}

TEST_F(Elastic, ASlowWorkerLeavesWhereThatIsAsked) {
  small_gpt(128, 64, "steps = 200\nwarmup = 1\nglobal_batch = 12\n");
  const Ended ended =
      compared("ddp", "2:3",
               {"faults.plan=[\"slow worker 1 by 4 from step 20\"]", "faults.remove_slow=true"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("it leaves (faults.remove_slow)"));
  EXPECT_THAT(ended.out, HasSubstr(proven));
  EXPECT_EQ(worlds_of(row_of("ddp")), (std::vector<int>{3, 2})) << row_of("ddp").at("worlds");
  EXPECT_EQ(lost_in(row_of("ddp")), 0);
  expect_equal_to_replay(row_of("ddp"));
}

TEST_F(Elastic, TooFewWorkersEndTheRunWithTheCause) {
  const Ended ended =
      run({"train", "trial.toml", "--scheme", "ddp", "--world", "2:3", "--set",
           "faults.plan=[\"kill worker 1 at step 5\", \"kill worker 0 at step 9\"]"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("1 worker is left, and the smallest world is 2"));
  EXPECT_THAT(ended.err, HasSubstr("was killed by signal 9"));
}

/// Checkpoints on the disk belong to no world either.
TEST_F(Elastic, ARunThatWasToldToStopGoesOnAtItsLargestWorld) {
  std::vector<std::string> words = {"train", "trial.toml", "--scheme", "fsdp", "--world", "1:3"};
  for (const char* set :
       {"checkpoint.path=kept", "train.steps=100000", "faults.plan=[\"kill worker 1 at step 20\"]"})
    words.insert(words.end(), {"--set", set});
  {
    testing::Program first = start(words);
    ASSERT_TRUE(first.wait_for_error("world 2 after step"));
    kill(first.pid(), SIGTERM);
    const Ended stopped = first.wait();
    EXPECT_EQ(stopped.status, 0) << stopped.err;
    EXPECT_THAT(stopped.out, HasSubstr("to be continued"));
  }
  testing::Program second = start(words);
  ASSERT_TRUE(second.wait_for("going on from checkpoint"));
  ASSERT_TRUE(second.wait_for("step"));
}

TEST_F(Elastic, WhatCannotChangeItsWorldIsRefusedByName) {
  EXPECT_THAT(refusal_at("diloco", "1:3", {}),
              HasSubstr("replicas of scheme diloco never are all equal"));
  EXPECT_THAT(refusal_at("ddp", "1:3", {"train.batch_per_rank=4", "train.global_batch=0"}),
              HasSubstr("batch"));
  const Ended alone = run({"train", "trial.toml", "--scheme", "ddp", "--world", "3", "--set",
                           "faults.plan=[\"remove worker 1 at step 5\"]"});
  EXPECT_THAT(alone.err, HasSubstr("set faults.least_world"));
  const Ended slow = run({"train", "trial.toml", "--scheme", "ddp", "--world", "3", "--set",
                          "faults.remove_slow=true"});
  EXPECT_THAT(slow.err, HasSubstr("faults.remove_slow: the world of the run does not change"));
}

}  // namespace
}  // namespace ringside
