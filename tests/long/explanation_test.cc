// `explain` names what is wrong in staged cases that run on two cores of this machine. The other
// staged cases need machines with a network, and are simulated (tests/experiments).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;

TEST(ExplanationOnThisMachine, NamesWhatIsWrong) {
  const testing::TemporaryFolder folder;
  folder.write("staged.toml", R"([model]
layers = 4
heads = 4
width = 128
context = 64
[data]
kind = "synthetic"
[train]
steps = 24
warmup = 4
global_batch = 16
[compare]
schemes = []
worlds = [2]
repeats = 3
all_cores = false
[[compare.case]]
scheme = "ddp"
label = "slow"
set = { "device.slow" = [1, 3] }
[[compare.case]]
scheme = "ddp"
label = "bucket"
set = { "scheme.ddp.bucket_mb" = 1000, "model.width" = 512, "model.context" = 16, "train.global_batch" = 4, "optimizer.kind" = "sgd", "optimizer.momentum" = 0.0 }
[[compare.case]]
scheme = "ddp"
label = "tiny"
set = { "train.global_batch" = 2, "model.context" = 2, "model.width" = 256, "scheme.ddp.bucket_mb" = 1 }
[[compare.case]]
scheme = "ddp"
label = "cores"
worlds = [4]
)");
  const auto run = [&](const std::vector<std::string>& arguments) {
    const testing::Ended ended =
        testing::Program(RINGSIDE_PROGRAM, arguments, folder.path()).wait();
    EXPECT_EQ(ended.status, 0) << ended.err;
    return ended.out;
  };
  run({"calibrate", "staged.toml"});
  run({"compare", "staged.toml"});
  const std::pair<const char*, const char*> stages[] = {{"slow", "a slow rank"},
                                                        {"bucket", "one bucket for all"},
                                                        {"tiny", "a tiny batch"},
                                                        {"cores", "more threads than cores"}};
  for (const auto& [label, cause] : stages) {
    const std::string text = run({"explain", "results/staged", label, "--json", "why.json"});
    std::printf("%s\n", text.c_str());
    const auto why = nlohmann::json::parse(std::ifstream(folder.path() / "why.json"));
    // Other work on this machine is nothing that was staged.
    std::vector<std::string> names;
    for (const auto& one : why.at("cases").at(0).at("causes"))
      if (one.at("cause") != "disturbed machine") names.push_back(one.at("cause"));
    ASSERT_FALSE(names.empty()) << text;
    EXPECT_EQ(names.front(), cause) << text;
    EXPECT_THAT(
        text, HasSubstr(std::string(label) == "slow" ? "Rank 1 is slow" : "the simulator expects"));
  }
}

}  // namespace
}  // namespace ringside
