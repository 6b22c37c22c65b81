// The real program leaves alone what it was not told to write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.h"
#include "tests/support/some_text.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

using testing::Ended;
using ::testing::HasSubstr;

class OutputFiles : public ::testing::Test {
 protected:
  OutputFiles() {
    folder_.write("text.txt", testing::some_text(2'000));
    folder_.write("trial.toml", experiment_);
  }

  Ended run(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"train", "trial.toml", "--scheme", "single"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return testing::Program(RINGSIDE_PROGRAM, arguments, folder_.path()).wait();
  }
  Ended compare() const {
    return testing::Program(RINGSIDE_PROGRAM, {"compare", "trial.toml", "--schemes", "single"},
                            folder_.path())
        .wait();
  }
  void refuses(const std::vector<std::string>& more, const std::string& why) const {
    const Ended ended = run(more);
    EXPECT_EQ(ended.status, 2);
    EXPECT_THAT(ended.err, HasSubstr(why));
    EXPECT_EQ(folder_.read("trial.toml"), experiment_);
  }

  const std::string experiment_ = R"(
[model]
layers = 1
heads = 2
width = 8
context = 16
[data]
path = "text.txt"
[train]
steps = 2
warmup = 1
global_batch = 2
[compare]
worlds = [1]
repeats = 1
)";
  testing::TemporaryFolder folder_;
};

TEST_F(OutputFiles, AreNoneOfTheInputs) {
  refuses({"--output", "trial.toml"}, "trial.toml is the experiment file, which it would replace");
  refuses({"--save", "text.txt"}, "--save " + (folder_.path() / "text.txt").string() +
                                      " is a file of data.path, which it would replace");
  std::filesystem::create_symlink("text.txt", folder_.path() / "link");
  refuses({"--output", "link"}, "is a file of data.path");
  std::filesystem::create_hard_link(folder_.path() / "trial.toml", folder_.path() / "name");
  refuses({"--output", "name"}, "is the experiment file");
}

TEST_F(OutputFiles, AreNotEachOther) {
  refuses({"--save", "new", "--output", "./new"}, "is the file of --output");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "new"));
}

TEST_F(OutputFiles, AreNotTheInitialWeights) {
  ASSERT_EQ(run({"--save", "w.safetensors"}).status, 0);
  const std::string weights = folder_.read("w.safetensors");
  const std::vector<std::string> again = {"--set", "train.initial_weights=w.safetensors"};
  auto arguments = again;
  arguments.insert(arguments.end(), {"--output", "w.safetensors"});
  refuses(arguments, "is a file of train.initial_weights");
  EXPECT_EQ(folder_.read("w.safetensors"), weights);
}

TEST_F(OutputFiles, NeighboursAndModesStay) {
  folder_.write("row.json.part", "mine");
  folder_.write("row.json", "old");
  const auto mode = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  std::filesystem::permissions(folder_.path() / "row.json", mode);
  ASSERT_EQ(run({"--output", "row.json"}).status, 0);
  EXPECT_THAT(folder_.read("row.json"), HasSubstr("\"status\": \"ok\""));
  EXPECT_EQ(folder_.read("row.json.part"), "mine");
  EXPECT_EQ(std::filesystem::status(folder_.path() / "row.json").permissions(), mode);
}

TEST_F(OutputFiles, EarlierRowsMoveAside) {
  ASSERT_EQ(compare().status, 0);
  const std::string rows = folder_.read("results/trial/rows.jsonl");
  const Ended again = compare();
  ASSERT_EQ(again.status, 0);
  EXPECT_THAT(again.err, HasSubstr("Earlier results are in results/trial/before-1"));
  EXPECT_EQ(folder_.read("results/trial/before-1/rows.jsonl"), rows);
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "results/trial/before-1/plan.json"));
  EXPECT_NE(folder_.read("results/trial/rows.jsonl"), "");
}

TEST_F(OutputFiles, AFolderOfSomebodyElseIsRefused) {
  std::filesystem::create_directories(folder_.path() / "results/trial");
  folder_.write("results/trial/summary.md", "mine");
  const Ended ended = compare();
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.err, HasSubstr("has a file summary.md that no comparison wrote"));
  EXPECT_EQ(folder_.read("results/trial/summary.md"), "mine");
}

}  // namespace
}  // namespace ringside
