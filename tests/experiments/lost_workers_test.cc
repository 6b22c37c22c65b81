// Workers of parameter servers that are killed: the run goes on where its rules allow that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/plan/train_config.h"
#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using testing::Ended;
using ::testing::HasSubstr;
using testing::Program;

const std::string endless = "train.steps=100000000";

class LostWorkers : public ProgramTest {
 protected:
  LostWorkers() { small_gpt(16, 16, "steps = 2500\nglobal_batch = 3\n"); }

  Program started(const std::vector<std::string>& settings) const {
    std::vector<std::string> arguments = {
        "train", "trial.toml", "--scheme", "ps", "--world", "3", "--set", "scheme.ps.servers=1"};
    for (const std::string& one : settings) arguments.insert(arguments.end(), {"--set", one});
    return start(arguments);
  }

  /// Kills one rank once all workers have trained; ranks 0 to 2 are workers, rank 3 is the server.
  Ended without(std::size_t rank, const std::vector<std::string>& settings) const {
    Program program = started(settings);
    EXPECT_TRUE(program.wait_for("step"));
    const auto ranks = program.children();
    EXPECT_EQ(ranks.size(), 4u) << "the run was over too soon";
    kill(ranks.at(rank), SIGKILL);
    return program.wait();
  }
};

TEST_F(LostWorkers, AreLeftOutAndNamedUnderAspAndSspAndAmongBackups) {
  for (const std::string way : {"scheme.ps.consistency=asp", "scheme.ps.consistency=ssp",
                                "scheme.ps.consistency=easgd", "scheme.ps.backup_workers=1"}) {
    const Ended ended = without(1, {way});
    EXPECT_EQ(ended.status, 0) << way << ": " << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("lost           rank 1 (worker) was killed by signal 9"))
        << way;
    EXPECT_THAT(ended.out, HasSubstr("staleness")) << way;
    // How many the killed one made before the others noticed is chance
    // (RunRecord.CountsTheSteps...).
    EXPECT_THAT(ended.out, ::testing::ContainsRegex("worker steps +[1-9][0-9]*, [0-9]+, [1-9]"))
        << way;
  }
}

/// The servers do not take the silence of a lost worker for that of one that is stuck.
TEST_F(LostWorkers, AreNotMissedLater) {
  const Ended ended =
      without(1, {"scheme.ps.consistency=asp", "train.timeout_s=2", "train.steps=6000"});
  EXPECT_EQ(ended.status, 0) << ended.err;
}

TEST_F(LostWorkers, AreLeftOutOfTheReplayToo) {
  for (const std::string way :
       {"consistency = \"asp\"\ndelay_compensation = 1", "consistency = \"ssp\"",
        "consistency = \"easgd\"", "backup_workers = 1\npartition_mb = 0.001"}) {
    small_gpt(16, 16,
              "steps = 300\nwarmup = 1\nglobal_batch = 3\nevaluate_every = 100\n"
              "[scheme.ps]\nservers = 1\n" +
                  way +
                  "\n[compare]\n"
                  "schemes = [\"ps\"]\nworlds = [3]\nrepeats = 1\nattempts = 1\n");
    Program program = start({"compare", "trial.toml"});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    auto ranks = program.children();
    for (; ranks.size() < 4; ranks = program.children()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << way;
      std::this_thread::yield();
    }
    kill(ranks[2], SIGKILL);
    const Ended ended = program.wait();
    EXPECT_EQ(ended.status, 0) << way << ": " << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("went on although rank 2 (worker) was killed by signal 9"))
        << way;
    EXPECT_THAT(ended.out, HasSubstr("bit-identical to its definition (replayed)")) << way;
  }
}

TEST_F(LostWorkers, EndARunWhoseWorkersWaitForAll) {
  const Ended ended = without(1, {endless});
  EXPECT_LT(ended.seconds, TrainConfig{}.timeout_s);
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("rank 1 (worker) was killed by signal 9"));
}

TEST_F(LostWorkers, WorkerZeroWhichReportsTheParametersIsMissed) {
  const Ended ended = without(0, {"scheme.ps.consistency=asp", endless});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("rank 0 (worker) was killed by signal 9"));
}

TEST_F(LostWorkers, AServerIsMissedUnderEveryConsistency) {
  for (const std::string way : {"scheme.ps.consistency=bsp", "scheme.ps.consistency=asp",
                                "scheme.ps.consistency=ssp", "scheme.ps.backup_workers=1"}) {
    const Ended ended = without(3, {way, endless});
    EXPECT_EQ(ended.status, 1) << way;
    EXPECT_THAT(ended.err, HasSubstr("rank 3 (server) was killed by signal 9")) << way;
  }
}

}  // namespace
}  // namespace ringside
