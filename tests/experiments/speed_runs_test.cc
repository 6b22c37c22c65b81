// The real program measures speeds, and gives workers shares of a step that follow from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using testing::Ended;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SpeedRuns : public ProgramTest {
 protected:
  SpeedRuns() {
    small_gpt(8, 16, R"(steps = 3
warmup = 1
global_batch = 24
shares = "speed"
[compare]
schemes = ["single", "ddp", "ps"]
worlds = [1, 2]
repeats = 1
attempts = 1        # other work on this machine changes nothing here
all_cores = false   # nor do its cores
)");
  }

  nlohmann::json read(const std::string& file) const {
    return nlohmann::json::parse(folder_.read("results/trial/" + file));
  }
  /// The rows by their runs.
  std::map<std::string, nlohmann::json> rows() const {
    std::map<std::string, nlohmann::json> out;
    std::istringstream lines(folder_.read("results/trial/rows.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      auto row = nlohmann::json::parse(line);
      out[row.at("run")] = row;
    }
    return out;
  }
  /// All runs at world 2 ended with the bits of their definition, and had the same shares, which
  /// are returned.
  std::string shares_of_proven_runs() const {
    const nlohmann::json summary = read("summary.json");
    for (const auto& one : summary.at("cases"))
      EXPECT_EQ(one.at("proof"),
                one.at("scheme") == "single" ? "reference" : "bit-identical to single")
          << one;
    const auto all = rows();
    const std::string shares = all.at("ddp-w2-r0").at("train").at("shares").dump();
    EXPECT_EQ(all.at("ps-w2-r0").at("train").at("shares").dump(), shares);
    EXPECT_EQ(all.at("ps-w2-r0").at("parameter_hashes"),
              all.at("ddp-w2-r0").at("parameter_hashes"));
    return shares;
  }
};

TEST_F(SpeedRuns, HaveSharesThatFollowFromTheMeasurementInTheFolder) {
  const Ended first = run({"compare", "trial.toml"});
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.err, AllOf(HasSubstr("Measuring the speeds of 2 workers, 15 steps\n"),
                               HasSubstr("Speeds: world 2, 12 samples a worker: ")));
  EXPECT_THAT(shares_of_proven_runs(), Not("\"speed\""));
  nlohmann::json plan = read("plan.json");
  ASSERT_EQ(plan.at("speeds").size(), 1u);
  for (const auto& run : plan.at("runs"))
    EXPECT_EQ(run.at("train").at("shares"), rows().at(run.at("run")).at("train").at("shares"));

  // Worker 0 was measured as three times as fast, and one row had been made.
  auto& workers = plan["speeds"][0]["workers"];
  ASSERT_EQ(workers.size(), 2u);
  workers[0]["seconds"] = {0.1, 0.1};
  workers[1]["seconds"] = {0.3, 0.3};
  folder_.write("results/trial/plan.json", plan.dump());
  folder_.write("results/trial/rows.jsonl", rows().at("single-w1-r0").dump() + "\n");
  const std::vector<std::string> resume = {"compare", "trial.toml", "--resume"};
  const Ended second = run(resume);
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_THAT(second.err, Not(HasSubstr("Measuring")));
  EXPECT_EQ(shares_of_proven_runs(), "[18,6]");
  EXPECT_EQ(read("plan.json").at("speeds"), plan.at("speeds"));

  // Another world needs another measurement, and keeps what is there.
  auto wider = resume;
  wider.insert(wider.end(), {"--worlds", "1,2,3"});
  const Ended third = run(wider);
  ASSERT_EQ(third.status, 0) << third.err;
  EXPECT_THAT(third.err, AllOf(HasSubstr("Measuring the speeds of 3 workers"),
                               Not(HasSubstr("Measuring the speeds of 2 workers"))));
  EXPECT_EQ(shares_of_proven_runs(), "[18,6]");
  EXPECT_EQ(read("plan.json").at("speeds").size(), 2u);

  plan["speeds"][0]["workers"][1]["seconds"] = {0.1, 0.1};
  folder_.write("results/trial/plan.json", plan.dump());
  const Ended other = run(resume);
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("leave --resume out to start anew"));
}

TEST_F(SpeedRuns, AreTrainedAloneToo) {
  const Ended ended = run({"train", "trial.toml", "--scheme", "fsdp", "--world", "2", "--output",
                           "run.json", "--save", "weights.safetensors"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("Speeds: world 2, 12 samples a worker: "));
  EXPECT_TRUE(std::filesystem::exists(path("weights.safetensors")));
  const auto written = nlohmann::json::parse(folder_.read("run.json"));
  ASSERT_EQ(written.at("speeds").size(), 1u);
  EXPECT_EQ(written["speeds"][0].at("workers").size(), 2u);
  EXPECT_NE(written.at("row").at("train").at("shares"), "speed");
  const Ended alone = run({"train", "trial.toml", "--scheme", "single"});
  EXPECT_EQ(alone.status, 0) << alone.err;
  EXPECT_THAT(alone.err, Not(HasSubstr("Speeds")));
}

TEST_F(SpeedRuns, LeaveNothingIfTheirMeasurementIsInterrupted) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"compare", "trial.toml"},
        {"train", "trial.toml", "--scheme", "ddp", "--world", "2", "--output", "run.json"}}) {
    auto arguments = command;  // steps that take longer than an interruption
    for (const char* slow : {"train.global_batch=16000", "model.width=64"})
      arguments.insert(arguments.end(), {"--set", slow});
    testing::Program program = start(arguments);
    ASSERT_TRUE(program.wait_for_error("Measuring the speeds"));
    kill(program.pid(), SIGINT);
    const Ended ended = program.wait();
    EXPECT_EQ(ended.status, 130);
    EXPECT_THAT(ended.err, HasSubstr("ringside: interrupted\n"));
    EXPECT_THAT(ended.err, Not(HasSubstr("Speeds:")));
  }
  EXPECT_FALSE(std::filesystem::exists(path("results/trial/rows.jsonl")));
  EXPECT_FALSE(std::filesystem::exists(path("run.json")));
}

TEST_F(SpeedRuns, ThatCannotBeMadeAreRefusedBeforeSpeedsAreMeasured) {
  const Ended ended = run({"compare", "trial.toml", "--schemes", "local_sgd"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.err, HasSubstr("replicas of their own"));
  EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  const Ended absent = run({"compare", "trial.toml", "--set", "data.path=absent.txt"});
  EXPECT_EQ(absent.status, 2);
  EXPECT_EQ(std::count(absent.err.begin(), absent.err.end(), '\n'), 1) << absent.err;
  EXPECT_FALSE(std::filesystem::exists(path("results")));
}

}  // namespace
}  // namespace ringside
