// `ringside report`, and the report that `compare` writes.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "experiments/runner/report/report_page.h"
#include "tests/experiments/made_up_rows.h"
#include "tests/experiments/program_test.h"

namespace ringside::runner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ReportProgram : public ProgramTest {
 protected:
  ReportProgram() {
    for (const char* name : {"a", "b", "c"}) std::filesystem::create_directory(path(name));
    if (!can_draw(built_in_page())) skipped_ = true;
  }
  void SetUp() override {
    if (skipped_) GTEST_SKIP() << how_to_get_reports();
  }
  static std::string line(const std::string& scheme, int world) {
    return to_json(made_up_row(scheme, world, 0, 100, "a", {2, 1})).dump() + "\n";
  }
  std::string content(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(path(name)).rdbuf();
    return text.str();
  }
  bool skipped_ = false;
};

TEST_F(ReportProgram, ShowsTheGoodRowsOfAFolderAndSaysWhatElseIsThere) {
  nlohmann::json old = nlohmann::json::parse(line("dp", 2));
  old["schema"] = 8;
  folder_.write("a/rows.jsonl",
                line("single", 1) + "{\"schema\": 19, \"lo\n" + old.dump() + "\n" + line("ddp", 2));
  folder_.write("a/plan.json", "{}");
  folder_.write("a/environment.json", R"({"cpu": "some processor"})");
  const auto ended = run({"report", "a"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.out, "a/report.html\n");
  EXPECT_THAT(ended.err, AllOf(HasSubstr("rows.jsonl:2"), HasSubstr("schema 8")));
  const std::string page = content("a/report.html");
  for (const char* part :
       {"\"label\":\"ddp\"", "rows.jsonl:2", "1 row of schema 8", "some processor", "vegaEmbed"})
    EXPECT_THAT(page.find(part), Not(std::string::npos)) << part;
  EXPECT_EQ(page.find("\"label\":\"dp\""), std::string::npos);
}

TEST_F(ReportProgram, WritesTheSummaryOfItsFolderAnewFromAllRowsOrNone) {
  folder_.write("a/rows.jsonl", line("single", 1));
  folder_.write("a/plan.json", R"({"schema": 19, "runs": []})");
  folder_.write("a/environment.json", "{}");
  folder_.write("a/summary.md", "of yesterday");
  ASSERT_EQ(run({"report", "a", "--output", "page.html"}).status, 0);
  EXPECT_EQ(content("a/summary.md"), "of yesterday") << "the page stands elsewhere";
  ASSERT_EQ(run({"report", "a"}).status, 0);
  EXPECT_THAT(content("a/summary.md"), AllOf(HasSubstr("# trial\n\n"), HasSubstr("| single")));
  EXPECT_EQ(nlohmann::json::parse(content("a/summary.json"))["cases"].size(), 1u);
  folder_.write("a/rows.jsonl", line("ddp", 2) + "nonsense\n");
  const auto ended = run({"report", "a"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.err, HasSubstr("a: its summary stays as it is"));
  EXPECT_THAT(content("a/summary.md"), HasSubstr("| single"));
}

TEST_F(ReportProgram, WritesTheSummaryOfAFolderWithoutPlan) {
  folder_.write("a/rows.jsonl", line("single", 1));
  folder_.write("a/environment.json", "{}");
  folder_.write("a/summary.md", "of yesterday");
  const auto ended = run({"report", "a"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.err, "");
  EXPECT_THAT(content("a/summary.md"), HasSubstr("| single"));
  EXPECT_EQ(nlohmann::json::parse(content("a/summary.json"))["cases"].size(), 1u);
}

TEST_F(ReportProgram, PutsSeveralFoldersOntoOnePage) {
  folder_.write("a/rows.jsonl", line("single", 1));
  folder_.write("b/rows.jsonl", line("ddp", 2));
  folder_.write("c/rows.jsonl", "");
  const auto ended = run({"report", "a", "b", "c", "d", "--output", "page.html"});
  EXPECT_EQ(ended.status, 1);  // two of four were not read
  EXPECT_THAT(ended.err, AllOf(HasSubstr("c: no row"), HasSubstr("d: no such folder")));
  const std::string page = content("page.html");
  for (const char* part : {"\"folder\":\"a\"", "\"folder\":\"b\"", "d: no such folder"})
    EXPECT_THAT(page.find(part), Not(std::string::npos)) << part;
}

TEST_F(ReportProgram, WritesNothingWithoutARow) {
  folder_.write("a/rows.jsonl", "nonsense\n");
  const auto ended = run({"report", "a"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.err, HasSubstr("rows.jsonl:1: not a row"));
  EXPECT_FALSE(std::filesystem::exists(path("a/report.html")));
}

TEST_F(ReportProgram, SaysWhatFiguresForPapersNeed) {
  folder_.write("a/rows.jsonl", line("single", 1));
  const auto ended =
      run({"report", "a", "--figures", "figures"}, [] { setenv("PATH", "/nowhere", 1); });
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("install python3"));
  EXPECT_TRUE(std::filesystem::exists(path("a/report.html")));
}

TEST_F(ReportProgram, StandsBesideTheSummaryOfAComparison) {
  small_gpt(8, 8,
            "steps = 2\nwarmup = 1\nglobal_batch = 2\n[compare]\nschemes = [\"single\"]\n"
            "worlds = [1]\n");
  ASSERT_EQ(run({"compare", "trial.toml"}).status, 0);
  const std::string summary = content("results/trial/summary.json"),
                    page = content("results/trial/report.html");
  const auto parsed = nlohmann::json::parse(summary);
  const double operations = parsed["cases"][0]["mfu"]["flops_per_sample"];
  EXPECT_GT(operations, 0);
  EXPECT_THAT(page.find(nlohmann::json(operations).dump()), Not(std::string::npos));
}

}  // namespace
}  // namespace ringside::runner
