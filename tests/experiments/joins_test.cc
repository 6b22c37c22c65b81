// Workers that take the seats of others in runs whose workers do not wait for each other: every run
// has the bits of its replay, and nobody but the new process starts.
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
using ::testing::Not;

class Joins : public ProgramTest {
 protected:
  Joins() { small_gpt(16, 16, "steps = 1200\nwarmup = 1\nglobal_batch = 12\n"); }

  /// Compares ps, whose run has worlds "1:3", with its replay.
  Ended compared(const std::string& faults, const std::vector<std::string>& settings) const {
    std::vector<std::string> words = {"compare",   "trial.toml", "--quick",
                                      "--schemes", "ps",         "--results",
                                      "results",   "--set",      "faults.plan=[" + faults + "]"};
    for (const std::string& one : settings) words.insert(words.end(), {"--set", one});
    words.insert(words.end(), {"--set", "compare.worlds='1:3'"});
    return run(words);
  }
  nlohmann::json row() const {
    std::ifstream in(path("results/trial/rows.jsonl"));
    std::string line, last;
    while (std::getline(in, line)) last = line;
    return nlohmann::json::parse(last);
  }
  static std::vector<int> worlds_of(const nlohmann::json& row) {
    std::vector<int> out;
    for (const auto& period : row.at("worlds")) out.push_back(period.at("world").get<int>());
    return out;
  }
  static void expect_equal_evaluations(const nlohmann::json& run, const nlohmann::json& replay) {
    ASSERT_EQ(run.size(), replay.size());
    for (std::size_t i = 0; i < run.size(); ++i)
      for (const char* value : {"step", "loss", "accuracy"})
        EXPECT_EQ(run[i].at(value), replay[i].at(value)) << "evaluation " << i;
  }
  /// The run ended well, had these worlds, and is its replay to the bit.
  void expect_exact(const Ended& ended, const std::vector<int>& expected) const {
    ASSERT_EQ(ended.status, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("| bit-identical to its definition (replayed)")) << ended.out;
    const nlohmann::json one = row();
    EXPECT_EQ(worlds_of(one), expected) << one.at("worlds");
    EXPECT_EQ(one.at("parameter_hashes"), one.at("replay").at("parameter_hashes"));
    EXPECT_EQ(one.at("loss"), one.at("replay").at("loss"));
    expect_equal_evaluations(one.at("evaluations"), one.at("replay").at("evaluations"));
    for (const auto& period : one.at("worlds")) {
      EXPECT_EQ(period.at("lost_steps"), 0);
      const bool grows = period.at("cause") == "worker 1 has come";
      EXPECT_EQ(period.at("down_s").get<double>() > 0, grows) << period;
    }
  }
};

const std::string killed_once = "\"kill worker 1 at step 40\"";

TEST_F(Joins, AKilledWorkerIsReplacedUnderAsp) {
  for (const std::string transport : {"shm", "ipc", "tcp"}) {
    const Ended ended =
        compared(killed_once, {"scheme.ps.consistency=asp", "faults.restarts=1",
                               "scheme.ps.servers=2", "scheme.ps.partition_mb=0.002",
                               "train.evaluate_every=100", "scheme.ps.transport=" + transport});
    SCOPED_TRACE(transport);
    expect_exact(ended, {3, 2, 3});
    EXPECT_THAT(ended.err, HasSubstr("worker 1 has come"));
  }
}

TEST_F(Joins, AWorkerLeavesAndAnotherTakesItsSeat) {
  for (const std::string way : {"asp", "ssp"}) {
    SCOPED_TRACE(way);
    expect_exact(compared("\"remove worker 1 at step 20\", \"add worker at step 60\"",
                          {"scheme.ps.consistency=" + way, "scheme.ps.servers=2"}),
                 {3, 2, 3});
  }
}

TEST_F(Joins, AKilledWorkerIsReplacedUnderSspAndAmongBackups) {
  for (const std::string way : {"scheme.ps.consistency=ssp", "scheme.ps.backup_workers=1"}) {
    SCOPED_TRACE(way);
    expect_exact(
        compared(killed_once, {way, "faults.restarts=1", "scheme.ps.servers=2",
                               "scheme.ps.partition_mb=0.002", "train.evaluate_every=100"}),
        {3, 2, 3});
  }
}

TEST_F(Joins, AKilledWorkerIsReplacedUnderEasgd) {
  expect_exact(
      compared(killed_once, {"scheme.ps.consistency=easgd", "faults.restarts=1",
                             "scheme.ps.communication_period=4", "train.evaluate_every=50"}),
      {3, 2, 3});
}

TEST_F(Joins, CodesOfASeatBeginAnew) {
  expect_exact(
      compared(killed_once, {"scheme.ps.consistency=asp", "faults.restarts=1",
                             "scheme.ps.compressor=int8", "scheme.ps.pull_compressor=int8"}),
      {3, 2, 3});
  expect_exact(compared(killed_once, {"scheme.ps.consistency=asp", "faults.restarts=1",
                                      "scheme.ps.compressor=topk", "scheme.ps.ratio=0.25",
                                      "scheme.ps.partition_mb=0.01"}),
               {3, 2, 3});
}

TEST_F(Joins, ASeatMayBeTakenTwice) {
  expect_exact(compared(killed_once + ", \"kill worker 1 at step 400\"",
                        {"scheme.ps.consistency=asp", "faults.restarts=2",
                         "scheme.ps.delay_compensation=1", "train.steps=2000"}),
               {3, 2, 3, 2, 3});
}

TEST_F(Joins, WithoutAReplacementTheSeatStaysEmpty) {
  const Ended ended = compared(killed_once, {"scheme.ps.consistency=asp", "train.steps=300"});
  expect_exact(ended, {3, 2});
  EXPECT_THAT(ended.out, HasSubstr("went on although rank 1 (worker) was killed by signal 9"));
}

/// Meetings that are due while the seat is empty are left out, and held again later.
TEST_F(Joins, CheckpointsAreWrittenAgainAndARunGoesOnFromOne) {
  std::vector<std::string> words = {"train", "trial.toml", "--scheme", "ps", "--world", "1:3"};
  for (const std::string set :
       {"scheme.ps.consistency=asp", "scheme.ps.servers=2", "checkpoint.path=kept",
        "checkpoint.every=20", "checkpoint.keep=2", "faults.restarts=1", "train.steps=1000000"})
    words.insert(words.end(), {"--set", set});
  words.insert(words.end(), {"--set", "faults.plan=[" + killed_once + "]"});
  {
    testing::Program first = start(words);
    ASSERT_TRUE(first.wait_for_error("worker 1 has come"));
    ::kill(first.pid(), SIGTERM);
    const Ended stopped = first.wait();
    EXPECT_EQ(stopped.status, 0) << stopped.err;
    EXPECT_THAT(stopped.out, HasSubstr("to be continued"));
    EXPECT_THAT(stopped.err, Not(HasSubstr("checkpoints would lack its state")));
  }
  testing::Program second = start(words);
  EXPECT_TRUE(second.wait_for("going on from checkpoint"));
  EXPECT_TRUE(second.wait_for("step"));
}

TEST_F(Joins, WhatCannotBeIsRefusedByName) {
  const std::string asp = "scheme.ps.consistency=asp";
  EXPECT_THAT(refusal_at("async_diloco", "1:3", {}), HasSubstr("nobody takes their place"));
  EXPECT_THAT(
      refusal_at("ps", "1:3", {asp, "scheme.ps.placement=colocated", "scheme.ps.servers=3"}),
      HasSubstr("no worker of the run can leave"));
  EXPECT_THAT(refusal_at("ps", "1:3", {asp, "faults.plan=[\"remove worker 0 at step 5\"]"}),
              HasSubstr("worker 0, which reports the parameters"));
}

}  // namespace
}  // namespace ringside
