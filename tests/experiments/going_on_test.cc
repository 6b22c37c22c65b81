// Runs of the real program that are killed, stopped or told to end: they go on, and end with the
// bits of the unbroken run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using ::testing::ContainsRegex;
using testing::Ended;
using ::testing::HasSubstr;
using testing::Program;

class GoingOn : public ProgramTest {
 protected:
  GoingOn() { small_gpt(16, 16, "steps = 60\nwarmup = 1\nglobal_batch = 6\n"); }

  std::vector<std::string> command(const std::string& scheme,
                                   const std::vector<std::string>& settings) const {
    std::vector<std::string> out = {"train", "trial.toml", "--scheme", scheme, "--world", "3"};
    for (const std::string& one : settings) out.insert(out.end(), {"--set", one});
    return out;
  }
  /// The hash of the parameters at the end; empty if the run did not end.
  static std::string hash_of(const Ended& ended) {
    const std::string mark = "\nparameters     ";
    const std::size_t at = ended.out.find(mark);
    return at == std::string::npos ? "" : ended.out.substr(at + mark.size(), 32);
  }
  std::string unbroken(const std::string& scheme) const {
    const Ended ended = run(command(scheme, {}));
    EXPECT_EQ(ended.status, 0) << ended.err;
    return hash_of(ended);
  }

  const std::string kept_ = "checkpoint.path=kept", every_ = "checkpoint.every=10";
};

TEST_F(GoingOn, AKilledWorkerIsReplacedFromTheNewestCheckpoint) {
  for (const std::string scheme : {"ddp", "fsdp", "zero1"}) {
    const std::string whole = unbroken(scheme);
    const Ended ended = run(command(
        scheme, {"checkpoint.path=" + scheme, every_, "faults.restarts=2",
                 "faults.plan=[\"kill worker 1 at step 25\", \"kill worker 0 at step 47\"]"}));
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_EQ(hash_of(ended), whole) << ended.out;
    EXPECT_THAT(ended.out, HasSubstr("restarted      from step "));
    EXPECT_THAT(ended.out, ContainsRegex("figure +restarts 2"));
    EXPECT_THAT(ended.out, HasSubstr("goodput"));
    EXPECT_THAT(ended.err, HasSubstr("restart 2 of 2 from step "));
  }
}

/// A worker that is killed has a stage of the model alone.
TEST_F(GoingOn, AKilledStageIsReplacedFromTheNewestCheckpoint) {
  const auto meshed = [&](const std::vector<std::string>& settings) {
    std::vector<std::string> out = {"train", "trial.toml", "--scheme", "ddp", "--world", "4"};
    for (const char* one : {"mesh.pipeline=2", "train.accumulation=3"})
      out.insert(out.end(), {"--set", one});
    for (const std::string& one : settings) out.insert(out.end(), {"--set", one});
    return run(out);
  };
  const std::string whole = hash_of(meshed({}));
  const Ended ended =
      meshed({kept_, every_, "faults.restarts=1", "faults.plan=[\"kill worker 3 at step 25\"]"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(hash_of(ended), whole) << ended.out;
  EXPECT_THAT(ended.out, HasSubstr("restarted      from step 20"));
}

/// Without checkpoints a run begins anew; one that always fails at the same step ends.
TEST_F(GoingOn, WithoutCheckpointsARunBeginsAnew) {
  const std::string whole = unbroken("ddp");
  const Ended ended =
      run(command("ddp", {"faults.restarts=1", "faults.plan=[\"kill worker 2 at step 9\"]"}));
  EXPECT_EQ(hash_of(ended), whole) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("restarted      from the beginning"));
  const Ended again = run(command("ddp", {"faults.restarts=5", "optimizer.lr=1e30"}));
  EXPECT_NE(again.status, 0);
  EXPECT_THAT(again.err, HasSubstr("for the second time"));
}

TEST_F(GoingOn, ASchedulersSignalEndsTheRunWithACheckpoint) {
  const std::string whole = unbroken("fsdp");
  for (const int number : {SIGTERM, SIGUSR1}) {
    const std::string folder = "checkpoint.path=of-" + std::to_string(number);
    const auto begun = command("fsdp", {folder, "train.steps=60"});
    {
      Program program = start(begun);
      ASSERT_TRUE(program.wait_for("step"));
      kill(program.pid(), number);
      const Ended ended = program.wait();
      EXPECT_EQ(ended.status, 0) << ended.err;
      EXPECT_THAT(ended.out, HasSubstr("to be continued: checkpoint "));
    }
    const Ended ended = run(begun);
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("going on from checkpoint"));
    EXPECT_EQ(hash_of(ended), whole);
  }
}

TEST_F(GoingOn, CtrlCEndsItWithACheckpointToo) {
  // Whoever starts the tests in the background may have Ctrl-C ignored.
  Program program =
      start(command("ddp", {kept_, "train.steps=100000"}), [] { std::signal(SIGINT, SIG_DFL); });
  ASSERT_TRUE(program.wait_for("step"));
  for (const pid_t rank : program.children()) kill(rank, SIGINT);  // as a terminal does
  kill(program.pid(), SIGINT);
  const Ended ended = program.wait();
  EXPECT_EQ(ended.status, 130);
  EXPECT_THAT(ended.out, HasSubstr("to be continued"));
}

/// With --resume a comparison goes on with a run that was broken off, but not with another repeat
/// of it, whose checkpoints had the same folder.
TEST_F(GoingOn, AComparisonGoesOnFromTheCheckpointOfItsRun) {
  std::vector<std::string> command = {"compare", "trial.toml", "--schemes", "ddp", "--worlds", "3"};
  for (const std::string& one :
       {kept_, std::string("train.steps=400"), std::string("checkpoint.every=50"),
        std::string("faults.plan=[\"stop worker 1 at step 120 for 1 s\"]"),
        std::string("compare.repeats=2"), std::string("compare.attempts=1"),
        std::string("compare.all_cores=false")})
    command.insert(command.end(), {"--set", one});
  Program program = start(command, [] { std::signal(SIGINT, SIG_DFL); });
  ASSERT_TRUE(program.wait_for_error("was stopped by a signal"));
  kill(program.pid(), SIGINT);
  ASSERT_EQ(program.wait().status, 130);
  command.emplace_back("--resume");
  const Ended ended = run(command);
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err,
              ContainsRegex("run ddp-w3-r0 goes on from checkpoint .*/kept/ddp-w3/step-"));
  EXPECT_THAT(ended.err, ::testing::Not(HasSubstr("run ddp-w3-r1 goes on")));
  EXPECT_THAT(ended.out, HasSubstr("bit-identical to single"));
  std::map<std::string, std::int64_t> after;  // steps, by run
  std::istringstream rows(folder_.read("results/trial/rows.jsonl"));
  for (std::string line; std::getline(rows, line);) {
    const auto row = nlohmann::json::parse(line);
    if (row.at("scheme") == "ddp")
      after[row.at("run")] = row.at("ranks")[0].at("checkpoints").at("resumed_after");
  }
  EXPECT_GT(after["ddp-w3-r0"], 0);
  EXPECT_EQ(after["ddp-w3-r1"], 0);
  EXPECT_EQ(run(command).status, 0) << "its row is one of the same experiment";
}

/// A comparison that is interrupted keeps no row of the run under way.
TEST_F(GoingOn, CtrlCInAComparisonLeavesNoRow) {
  Program program =
      start({"compare", "trial.toml", "--schemes", "single", "--worlds", "1", "--set", kept_,
             "--set", "train.steps=100000", "--set", "compare.all_cores=false"},
            [] { std::signal(SIGINT, SIG_DFL); });
  ASSERT_TRUE(program.wait_for_error("single world 1 repeat 0  step"));
  kill(program.pid(), SIGINT);
  EXPECT_EQ(program.wait().status, 130);
  EXPECT_THAT(folder_.read("results/trial/rows.jsonl"), ::testing::Not(HasSubstr("\"scheme\"")));
}

TEST_F(GoingOn, FreshBeginsAnewAndAnotherRunIsRefused) {
  ASSERT_EQ(run(command("ddp", {kept_})).status, 0);
  const Ended other = run(command("ddp", {kept_, "optimizer.lr=0.5"}));
  EXPECT_NE(other.status, 0);
  EXPECT_THAT(other.err, ContainsRegex("optimizer.lr was .* and is 0.5"));
  auto fresh = command("ddp", {kept_, "optimizer.lr=0.01"});
  fresh.push_back("--fresh");
  const Ended anew = run(fresh);
  EXPECT_EQ(anew.status, 0) << anew.err;
  EXPECT_THAT(anew.out, ::testing::Not(HasSubstr("going on")));
}

TEST_F(GoingOn, ASecondRunOnTheFolderIsRefused) {
  Program first = start(command("ddp", {kept_, "train.steps=100000000"}));
  ASSERT_TRUE(first.wait_for("step"));
  const Ended second = run(command("ddp", {kept_}));
  EXPECT_NE(second.status, 0);
  EXPECT_THAT(second.err, HasSubstr("is in use by another run"));
}

TEST_F(GoingOn, AStoppedRankIsNamedAndTheRunGoesOn) {
  const std::string whole = unbroken("ddp");
  const Ended ended = run(command("ddp", {"faults.plan=[\"stop worker 1 at step 5 for 1 s\"]"}));
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(hash_of(ended), whole);
  EXPECT_THAT(ended.err, HasSubstr("rank 1 (worker) was stopped by a signal after step "));
  EXPECT_THAT(ended.err, HasSubstr("rank 1 (worker) goes on after "));
  EXPECT_THAT(ended.out, HasSubstr("figure         restarts 0"));
}

TEST_F(GoingOn, ASlowWorkerIsNamedAndStays) {
  small_gpt(128, 64, "steps = 60\nwarmup = 1\nglobal_batch = 12\n");  // steps of some milliseconds
  const Ended ended = run(command("ddp", {"faults.plan=[\"slow worker 2 by 20 from step 20\"]"}));
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out,
              ContainsRegex("slow +rank 2 .worker. computes [0-9]+\\.. times as long as"));
  EXPECT_EQ(hash_of(ended), unbroken("ddp"));
}

TEST_F(GoingOn, WhatCannotGoOnIsRefusedBeforeItBegins) {
  const Ended fault = run(command("ddp", {"faults.plan=[\"kill worker 7 at step 5\"]"}));
  EXPECT_THAT(fault.err, HasSubstr("the run has 3 workers"));
  EXPECT_THAT(run({"train", "trial.toml", "--scheme", "ddp", "--fresh"}).err,
              HasSubstr("no checkpoint.path"));
}

}  // namespace
}  // namespace ringside
