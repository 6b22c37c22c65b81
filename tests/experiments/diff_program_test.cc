// `ringside diff` of folders that the program wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DiffProgram : public ProgramTest {
 protected:
  /// Simulates ddp on two V100 whose network has so many Gb/s, into DIR/trial.
  void compare(const std::string& folder, const std::string& gbit_s) const {
    experiment(std::string(R"(
[model]
layers = 2
heads = 2
width = 512
[data]
kind = "synthetic"
[train]
steps = 3
warmup = 1
global_batch = 4
[device]
kind = "sim"
cluster = ")") +
               RINGSIDE_CLUSTERS +
               R"(/v100-8x1-ethernet-10.toml"
[compare]
schemes = ["single", "ddp"]
worlds = [1, 2]
)");
    const testing::Ended ended = run(
        {"compare", "trial.toml", "--results", folder, "--set", "sim.network_gbit_s=" + gbit_s});
    ASSERT_EQ(ended.status, 0) << ended.err;
  }
};

TEST_F(DiffProgram, EndsWith3OnlyIfSomethingBecameWorse) {
  compare("before", "10");
  compare("after", "5");
  const testing::Ended slower = run({"diff", "before/trial", "after/trial", "--json", "diff.json"});
  EXPECT_EQ(slower.status, 3) << slower.out << slower.err;
  EXPECT_THAT(slower.out, AllOf(HasSubstr("sim.network_gbit_s: 10.0 -> 5.0"),
                                HasSubstr("REGRESSION: ddp at world 2 is ")));
  const auto written = nlohmann::json::parse(folder_.read("diff.json"));
  EXPECT_EQ(written.at("speeds").at(0).at("label"), "ddp");
  EXPECT_EQ(written.at("speeds").at(0).at("outcome"), "slower");
  const testing::Ended faster = run({"diff", "after/trial", "before/trial"});
  EXPECT_EQ(faster.status, 0) << faster.out;
  EXPECT_THAT(faster.out, AllOf(HasSubstr("faster, simulated"), HasSubstr("No regression: ")));
  const testing::Ended same = run({"diff", "before/trial", "before/trial"});
  EXPECT_EQ(same.status, 0);
  EXPECT_THAT(same.out, HasSubstr("The configuration is the same."));
  EXPECT_EQ(run({"diff", "before/trial", "after/trial", "--threshold", "90%"}).status, 0);
}

TEST_F(DiffProgram, RefusesWhatIsNoResultsFolderAndWhatIsNoShare) {
  folder_.write("text", "");
  const testing::Ended none = run({"diff", "nowhere", "text"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("nowhere"));
  for (const char* wrong : {"3 percent", "-1%", "200%", "nan", ""}) {
    const testing::Ended refused = run({"diff", "a", "b", "--threshold", wrong});
    EXPECT_EQ(refused.status, 2) << wrong;
    EXPECT_THAT(refused.err, HasSubstr("--threshold")) << wrong;
  }
  EXPECT_EQ(run({"diff", "a"}).status, 2);
}

}  // namespace
}  // namespace ringside
