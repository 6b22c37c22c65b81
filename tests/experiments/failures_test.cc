// The real program when ranks die and when it is interrupted. It must end soon with one clear line,
// and no rank may stay alive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/plan/train_config.h"
#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using testing::Ended;
using ::testing::HasSubstr;
using testing::Program;

class Failures : public ProgramTest, public ::testing::WithParamInterface<std::string> {
 protected:
  // The most that a run may have: whatever grows with their number shows when the run starts.
  Failures() { small_gpt(16, 16, "steps = 1000000000\nglobal_batch = 4\n"); }

  std::vector<std::string> endless() const {
    return {"train", "trial.toml", "--scheme", GetParam(), "--world", "2"};
  }

  static bool alive(pid_t pid) { return kill(pid, 0) == 0; }
};

TEST_P(Failures, ARankThatIsKilledIsNamedAndTheOthersEnd) {
  Program program = start(endless());
  ASSERT_TRUE(program.wait_for("step"));
  const auto ranks = program.children();
  ASSERT_GE(ranks.size(), 2u);
  kill(ranks[1], SIGKILL);
  const Ended ended = program.wait();
  EXPECT_LT(ended.seconds, TrainConfig{}.timeout_s);
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("rank 1 (worker) was killed by signal 9 (Killed) after step"));
  EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  for (pid_t rank : ranks) EXPECT_FALSE(alive(rank)) << rank;
}

TEST_P(Failures, ARanksOwnErrorIsHeardBeforeWhatOthersMakeOfIt) {
  auto arguments = endless();
  for (const char* diverging : {"optimizer.kind=sgd", "optimizer.lr=1e30"})
    arguments.insert(arguments.end(), {"--set", diverging});
  const Ended ended = run(arguments);
  EXPECT_LT(ended.seconds, TrainConfig{}.timeout_s);
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("the loss is"));
  EXPECT_THAT(ended.err, HasSubstr("the output of unit"));
  EXPECT_THAT(ended.err, HasSubstr("lower optimizer.lr"));
  EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
}

/// Schemes whose workers wait for each other.
class FailuresOfWaiting : public Failures {};

TEST_P(FailuresOfWaiting, ARankThatHangsIsEndedToo) {
  auto arguments = endless();
  arguments.insert(arguments.end(), {"--set", "train.timeout_s=1.5"});
  Program program = start(arguments);
  ASSERT_TRUE(program.wait_for("step"));
  const auto ranks = program.children();
  ASSERT_GE(ranks.size(), 2u);
  kill(ranks[1], SIGSTOP);
  const Ended ended = program.wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, ::testing::StartsWith("rank 1 (worker) was stopped by a signal"));
  const std::string error = ended.err.substr(ended.err.find('\n') + 1);
  EXPECT_THAT(error, ::testing::AnyOf(HasSubstr("rank 1"), HasSubstr("worker 1")));
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << ended.err;
  for (pid_t rank : ranks) EXPECT_FALSE(alive(rank)) << rank;
}

/// Stops and continues all processes of the program, as Ctrl-Z and fg do.
TEST_P(Failures, AStopOfAllCountsForNoDeadline) {
  auto arguments = endless();
  for (const char* soon_over : {"train.timeout_s=2", "train.steps=500"})
    arguments.insert(arguments.end(), {"--set", soon_over});
  Program program = start(arguments, [] { setpgid(0, 0); });
  ASSERT_TRUE(program.wait_for("step"));
  ASSERT_EQ(kill(-program.pid(), SIGSTOP), 0);
  constexpr int longer_than_every_deadline_ms = 2300;
  poll(nullptr, 0, longer_than_every_deadline_ms);
  kill(-program.pid(), SIGCONT);
  const Ended ended = program.wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
}

TEST_P(Failures, AnInterruptionLeavesNothing) {
  Program program = start(endless());
  ASSERT_TRUE(program.wait_for("step"));
  const auto ranks = program.children();
  kill(program.pid(), SIGINT);
  EXPECT_EQ(program.wait().status, 130);
  for (pid_t rank : ranks) EXPECT_FALSE(alive(rank)) << rank;
}

TEST_P(Failures, RanksDieWithTheirLauncher) {
  Program program = start(endless());
  ASSERT_TRUE(program.wait_for("step"));
  std::vector<int> ranks;  // become readable when the process ends
  for (const pid_t rank : program.children())
    ranks.push_back(static_cast<int>(syscall(SYS_pidfd_open, rank, 0)));
  ASSERT_GE(ranks.size(), 2u);
  kill(program.pid(), SIGKILL);
  for (const int rank : ranks) {
    constexpr int longest_ms = 30000;
    pollfd ended{rank, POLLIN, 0};
    EXPECT_EQ(poll(&ended, 1, longest_ms), 1);
    close(rank);
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, Failures,
                         ::testing::Values("dp", "ps", "ddp", "fsdp", "local_sgd", "independent"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Schemes, FailuresOfWaiting,
                         ::testing::Values("dp", "ps", "ddp", "fsdp", "local_sgd"),
                         [](const auto& info) { return info.param; });

class StandingStill : public ProgramTest {};

/// As by Ctrl-Z, a batch system that suspends jobs, or a paused container.
TEST_F(StandingStill, OfAllProcessesIsSaidOfTheRun) {
  small_gpt(16, 16, "steps = 1000\nglobal_batch = 4\n");
  Program program = start({"train", "trial.toml", "--scheme", "ddp", "--world", "2"});
  ASSERT_TRUE(program.wait_for("step"));
  const auto all = [&](int signal) {
    for (const pid_t rank : program.children()) kill(rank, signal);
    kill(program.pid(), signal);
  };
  all(SIGSTOP);
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(900);
  while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
  all(SIGCONT);
  const Ended ended = program.wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, ::testing::ContainsRegex("disturbed .*the run stood still for [0-9]"));
}

}  // namespace
}  // namespace ringside
