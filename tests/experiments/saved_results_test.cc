#include "experiments/runner/results/saved_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/runner/results/folder_lock.h"
#include "experiments/runner/results/results.h"
#include "tests/experiments/made_up_rows.h"
#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside::runner {
namespace {

using testing::complaint;
using testing::TemporaryFolder;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SavedResultsTest : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return temporary_.path() / "trial"; }
  void write_rows(const std::string& text) const { temporary_.write("trial/rows.jsonl", text); }
  static std::string line(const std::string& scheme) { return row(scheme).dump() + "\n"; }
  static nlohmann::json row(const std::string& scheme) {
    return to_json(made_up_row(scheme, 1, 0, 100, "a", {2, 1}));
  }
  TemporaryFolder temporary_;
};

TEST_F(SavedResultsTest, AWholeFolderHasAllRowsAndNoComplaint) {
  {
    ResultsFolder folder(path());
    folder.start({}, R"({"schema": 3, "runs": []})", R"({"processor": "any"})");
    folder.append(made_up_row("single", 1, 0, 100, "a", {2, 1}));
    folder.append(failed_row(made_up_row("ddp", 2, 0, 100, "a", {2, 1}).plan, "gone"));
  }
  const SavedResults results = read_results(path());
  EXPECT_EQ(results.name, "trial");
  ASSERT_EQ(results.rows.size(), 2u);
  EXPECT_EQ(results.rows[1].error, "gone");
  EXPECT_EQ(results.environment, R"({"processor": "any"})");
  EXPECT_THAT(results.complaints, IsEmpty());
}

TEST_F(SavedResultsTest, GoodRowsStayWhereOthersCannotBeRead) {
  std::filesystem::create_directory(path());
  nlohmann::json old = row("ddp");
  old["schema"] = 8;
  write_rows(line("single") + "nonsense\n" + old.dump() + "\n" + old.dump() + "\n" + line("ps") +
             R"({"schema": )");
  temporary_.write("trial/plan.json", "[]");
  const SavedResults results = read_results(path());
  ASSERT_EQ(results.rows.size(), 2u);
  EXPECT_EQ(results.rows[1].plan.scheme, "ps");
  EXPECT_EQ(results.plan, "");
  EXPECT_THAT(results.complaints,
              ElementsAre(HasSubstr("rows.jsonl:2: not a row"),
                          HasSubstr("rows.jsonl:6: the last row is cut short"),
                          AllOf(HasSubstr("2 rows of schema 8"), HasSubstr("run the comparison")),
                          HasSubstr("plan.json: not a JSON object"),
                          HasSubstr("environment.json: the file is missing")));
}

TEST_F(SavedResultsTest, ARowThatIsBeingWrittenIsNoComplaint) {
  ResultsFolder folder(path());
  EXPECT_TRUE(is_held(path()));
  folder.start({}, R"({"schema": 3, "runs": []})", "{}");
  write_rows(line("single") + R"({"schema": )");
  const SavedResults results = read_results(path());
  EXPECT_EQ(results.rows.size(), 1u);
  EXPECT_THAT(results.complaints, IsEmpty());
}

TEST_F(SavedResultsTest, NamesAFolderThatHoldsNoResults) {
  EXPECT_THAT(complaint([&] { read_results(path()); }), HasSubstr("trial: no such folder"));
  std::filesystem::create_directory(path());
  temporary_.write("trial/notes.txt", "mine");
  EXPECT_FALSE(is_held(path()));
  EXPECT_THAT(complaint([&] { read_results(path()); }), HasSubstr("it has no rows.jsonl"));
}

}  // namespace
}  // namespace ringside::runner
