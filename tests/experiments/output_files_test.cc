// The real program leaves alone what it was not told to write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/program_test.h"

namespace ringside {
namespace {

using testing::Ended;
using ::testing::HasSubstr;

class OutputFiles : public ProgramTest {
 protected:
  OutputFiles() {
    small_gpt(8, 16,
              "steps = 2\nwarmup = 1\nglobal_batch = 2\n[compare]\nworlds = [1]\nrepeats = 1\n");
  }

  Ended train(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"train", "trial.toml", "--scheme", "single"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  Ended compare() const { return run({"compare", "trial.toml", "--schemes", "single"}); }
  void refuses(const std::vector<std::string>& more, const std::string& why) const {
    const std::string before = folder_.read("trial.toml");
    const Ended ended = train(more);
    EXPECT_EQ(ended.status, 2);
    EXPECT_THAT(ended.err, HasSubstr(why));
    EXPECT_EQ(folder_.read("trial.toml"), before);
  }
};

TEST_F(OutputFiles, AreNoneOfTheInputs) {
  refuses({"--output", "trial.toml"}, "trial.toml would replace the experiment file");
  refuses({"--save", "text.txt"},
          "--save " + path("text.txt").string() + " would replace a file of data.path");
  std::filesystem::create_symlink("text.txt", path("link"));
  refuses({"--output", "link"}, "--output link: this is a link, and nothing is written through");
  std::filesystem::create_hard_link(path("trial.toml"), path("name"));
  refuses({"--output", "name"}, "would replace the experiment file");
}

TEST_F(OutputFiles, AreNotEachOther) {
  refuses({"--save", "new", "--output", "./new"}, "would replace the file of --output");
  EXPECT_FALSE(std::filesystem::exists(path("new")));
}

TEST_F(OutputFiles, AreNotTheInitialWeights) {
  ASSERT_EQ(train({"--save", "w.safetensors"}).status, 0);
  const std::string weights = folder_.read("w.safetensors");
  const std::vector<std::string> again = {"--set", "train.initial_weights=w.safetensors"};
  auto arguments = again;
  arguments.insert(arguments.end(), {"--output", "w.safetensors"});
  refuses(arguments, "would replace a file of train.initial_weights");
  EXPECT_EQ(folder_.read("w.safetensors"), weights);
}

TEST_F(OutputFiles, NeighboursAndModesStay) {
  folder_.write("row.json.part", "mine");
  folder_.write("row.json", "old");
  const auto mode = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  std::filesystem::permissions(path("row.json"), mode);
  ASSERT_EQ(train({"--output", "row.json"}).status, 0);
  EXPECT_THAT(folder_.read("row.json"), HasSubstr("\"status\": \"ok\""));
  EXPECT_EQ(folder_.read("row.json.part"), "mine");
  EXPECT_EQ(std::filesystem::status(path("row.json")).permissions(), mode);
}

TEST_F(OutputFiles, EarlierRowsMoveAside) {
  ASSERT_EQ(compare().status, 0);
  const std::string rows = folder_.read("results/trial/rows.jsonl");
  const Ended again = compare();
  ASSERT_EQ(again.status, 0);
  EXPECT_THAT(again.err, HasSubstr("Earlier results are in results/trial/before-1"));
  EXPECT_EQ(folder_.read("results/trial/before-1/rows.jsonl"), rows);
  EXPECT_TRUE(std::filesystem::exists(path("results/trial/before-1/plan.json")));
  EXPECT_NE(folder_.read("results/trial/rows.jsonl"), "");
}

TEST_F(OutputFiles, OfResultsTakeThePlaceOfLinks) {
  const std::vector<std::string> names = {"rows.jsonl",   "plan.json",        "environment.json",
                                          "summary.json", "summary.md",       "report.html",
                                          "metrics.prom", "metrics.prom.part"};
  std::filesystem::create_directories(path("results/trial"));
  for (const std::string& name : names) {
    folder_.write("private " + name, name == "rows.jsonl" ? "" : "private");
    std::filesystem::create_symlink(path("private " + name), path("results/trial/" + name));
  }
  folder_.write("private plan.json", R"({"schema": 3, "runs": []})");  // of a comparison
  const Ended ended = compare();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(folder_.read("private plan.json"), R"({"schema": 3, "runs": []})");
  EXPECT_EQ(folder_.read("private rows.jsonl"), "");
  for (const std::string& name : names) {
    if (name == "plan.json" || name == "rows.jsonl") continue;
    EXPECT_EQ(folder_.read("private " + name), "private") << name;
  }
  EXPECT_THAT(folder_.read("results/trial/summary.md"), HasSubstr("# trial"));
}

TEST_F(OutputFiles, OfResultsAreNotWrittenThroughAFolderThatIsALink) {
  std::filesystem::create_directories(path("results/trial"));
  std::filesystem::create_directories(path("private"));
  std::filesystem::create_symlink(path("private"), path("results/trial/histories"));
  std::filesystem::create_symlink(path("private"), path("results/trial/traces"));
  folder_.write("results/trial/plan.json", R"({"schema": 3, "runs": []})");
  const Ended ended = compare();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("results/trial/traces: this is no folder"));
  EXPECT_TRUE(std::filesystem::is_empty(path("private")));
}

TEST_F(OutputFiles, AResultsFolderThatIsRemovedEndsTheComparison) {
  testing::Program program = start({"compare", "trial.toml", "--schemes", "single", "--json"});
  ASSERT_TRUE(program.wait_for("\"run_began\""));
  // The comparison may write a file meanwhile.
  for (std::error_code error; std::filesystem::exists(path("results/trial"));)
    std::filesystem::remove_all(path("results/trial"), error);
  const Ended ended = program.wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("has been removed"));
  EXPECT_FALSE(std::filesystem::exists(path("results/trial")));
}

TEST_F(OutputFiles, AResultsFolderThatIsRenamedGetsAllAndIsNamed) {
  testing::Program program = start({"compare", "trial.toml", "--schemes", "single", "--json"});
  ASSERT_TRUE(program.wait_for("\"run_began\""));
  std::filesystem::rename(path("results/trial"), path("results/moved"));
  const Ended ended = program.wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("results folder results/trial has been renamed to " +
                                   path("results/moved").string() + " during the comparison"));
  EXPECT_FALSE(std::filesystem::exists(path("results/trial")));
  for (const char* file : {"plan.json", "environment.json", "rows.jsonl", "summary.json"})
    EXPECT_TRUE(std::filesystem::exists(path("results/moved") / file)) << file;
}

TEST_F(OutputFiles, AFolderOfAnotherProgramIsRefused) {
  std::filesystem::create_directories(path("results/trial"));
  folder_.write("results/trial/summary.md", "mine");
  const Ended ended = compare();
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.err, HasSubstr("contains summary.md but no plan.json of a comparison"));
  EXPECT_EQ(folder_.read("results/trial/summary.md"), "mine");
}

}  // namespace
}  // namespace ringside
