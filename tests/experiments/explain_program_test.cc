// The program's command `explain`, over a folder that `compare` wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using testing::Ended;
using ::testing::HasSubstr;
using ::testing::Not;

class ExplainProgram : public ProgramTest {
 protected:
  ExplainProgram() {
    experiment(R"([model]
layers = 2
heads = 2
width = 256
context = 128
[data]
kind = "synthetic"
[train]
steps = 3
warmup = 1
global_batch = 32
[device]
kind = "sim"
cluster = ")" RINGSIDE_CLUSTERS R"(/a100-4x1-infiniband-100.toml"
[compare]
schemes = []
worlds = [4]
repeats = 1
[[compare.case]]
scheme = "ddp"
[[compare.case]]
scheme = "fsdp"
label = "sharded"
set = { "scheme.fsdp.prefetch" = 0 }
)");
    EXPECT_EQ(run({"compare", "trial.toml"}).status, 0);
  }
};

TEST_F(ExplainProgram, ExplainsOneCaseFullyAndAllInBrief) {
  const Ended one = run({"explain", "results/trial", "sharded", "--json", "why.json"});
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_THAT(one.out,
              AllOf(HasSubstr("sharded, world 4, SIMULATED on"), HasSubstr("1. Prefetch off"),
                    HasSubstr("The critical path"), HasSubstr("the simulator expects"),
                    HasSubstr("Compute bound"), Not(HasSubstr("ddp, world 4"))));
  const auto json = nlohmann::json::parse(folder_.read("why.json"));
  ASSERT_EQ(json["cases"].size(), 1u);
  const auto& cause = json["cases"][0]["causes"][0];
  EXPECT_EQ(cause["cause"], "prefetch off");
  EXPECT_GT(cause["ms"].get<double>(), 0);
  EXPECT_LT(cause["trials"][0]["after_ms"].get<double>(),
            cause["trials"][0]["before_ms"].get<double>());

  const Ended all = run({"explain", "results/trial", "--no-trials"});
  EXPECT_EQ(all.status, 0) << all.err;
  EXPECT_THAT(all.out, AllOf(HasSubstr("ddp, world 4"), HasSubstr("sharded, world 4"),
                             Not(HasSubstr("the simulator expects"))));
}

TEST_F(ExplainProgram, ShowsTheGoodRowsOfABadFolder) {
  std::ofstream(path("results/trial/rows.jsonl"), std::ios::app) << "{\"schema\": 3}\n{\"sche";
  std::filesystem::remove_all(path("results/trial/traces"));
  const Ended ended = run({"explain", "results/trial", "sharded", "--no-trials"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("rows.jsonl"));
  EXPECT_THAT(ended.out, AllOf(HasSubstr("sharded, world 4"), HasSubstr("is not there")));

  // A case that failed says why.
  EXPECT_NE(run({"compare", "trial.toml", "--set", "model.width=16384", "--results", "bad"}).status,
            0);
  const Ended failed = run({"explain", "bad/trial", "ddp", "--no-trials"});
  EXPECT_EQ(failed.status, 0) << failed.err;
  EXPECT_THAT(failed.out, AllOf(HasSubstr("ddp, world 4\nFAILED: "), HasSubstr("no memory for")));
}

TEST_F(ExplainProgram, NamesTheCasesThatAreThere) {
  const Ended unknown = run({"explain", "results/trial", "shraded"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("no case 'shraded'"), HasSubstr("mean 'sharded'"),
                                 HasSubstr("'ddp' at world 4")));
  EXPECT_EQ(run({"explain", "results/trial", "ddp", "--world", "2"}).status, 2);
  const Ended nowhere = run({"explain", "results/none"});
  EXPECT_EQ(nowhere.status, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("results/none"));
}

}  // namespace
}  // namespace ringside
