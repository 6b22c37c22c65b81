// Every folder of results that is committed, read by the commands that read such folders.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "experiments/runner/report/report_page.h"
#include "experiments/runner/results/saved_results.h"
#include "tests/experiments/program_test.h"

namespace ringside::runner {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> committed_folders() {
  std::vector<std::string> folders;
  for (const auto& file : fs::recursive_directory_iterator(RINGSIDE_RESULTS))
    if (file.path().filename() == "rows.jsonl")
      folders.push_back(file.path().parent_path().string());
  std::sort(folders.begin(), folders.end());
  return folders;
}

using CommittedResults = ProgramTest;

/// (Results of other programs than `compare` have rows alone.)
TEST_F(CommittedResults, HaveRowsThatCanAllBeRead) {
  ASSERT_GE(committed_folders().size(), 25u);
  for (const std::string& folder : committed_folders()) {
    const SavedResults results = read_results(folder);
    EXPECT_THAT(results.complaints, Not(Contains(HasSubstr("rows.jsonl"))));
    EXPECT_THAT(results.rows, Not(IsEmpty())) << folder;
  }
}

TEST_F(CommittedResults, AreReported) {
  if (!can_draw(built_in_page())) GTEST_SKIP() << how_to_get_reports();
  std::vector<std::string> arguments = {"report", "--output", "page.html"};
  for (const std::string& folder : committed_folders()) arguments.push_back(folder);
  const auto ended = run(arguments);
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.err, Not(HasSubstr("rows.jsonl")));
}

TEST_F(CommittedResults, AreExplained) {
  for (const std::string& folder : committed_folders()) {
    const auto ended = run({"explain", folder, "--no-trials"});
    EXPECT_EQ(ended.status, 0) << folder;
    EXPECT_THAT(ended.err, Not(HasSubstr("rows.jsonl"))) << folder;
    EXPECT_THAT(ended.out, HasSubstr(", world ")) << folder;
  }
}

TEST_F(CommittedResults, AreNoWorseThanThemselves) {
  for (const std::string& folder : committed_folders()) {
    const auto ended = run({"diff", folder, folder});
    EXPECT_EQ(ended.status, 0) << folder << ended.out;
    EXPECT_THAT(ended.err, Not(HasSubstr("rows.jsonl"))) << folder;
  }
}

}  // namespace
}  // namespace ringside::runner
