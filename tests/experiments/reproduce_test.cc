// Published tables made anew: their index, how figures agree, and `ringside reproduce`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "experiments/runner/config/published_tables.h"
#include "experiments/runner/report/reproduced.h"
#include "tests/experiments/program_test.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using testing::Ended;
using ::testing::HasSubstr;
using ::testing::Not;

class TableIndex : public ::testing::Test {
 protected:
  TableIndex() { folder_.write("a.toml", ""); }
  std::vector<PublishedTable> read(const std::string& text) const {
    return read_published_tables(folder_.write("tables.toml", text));
  }
  std::string complaint(const std::string& text) const {
    return testing::complaint([&] { read(text); });
  }
  testing::TemporaryFolder folder_;
};

constexpr const char* one_table =
    "[[table]]\nname = \"T1\"\ntitle = \"first\"\nassumes = \"much\"\nfiles = [\"a.toml\"]\n";

TEST_F(TableIndex, NamesFilesBesideIt) {
  const auto tables = read(one_table);
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].title, "first");
  EXPECT_EQ(tables[0].files, std::vector{(folder_.path() / "a.toml").string()});
}

TEST_F(TableIndex, ThatIsWrongIsNamed) {
  EXPECT_THAT(complaint("[[table]]\nnam = \"T1\"\n"),
              AllOf(HasSubstr("tables.toml:2"), HasSubstr("did you mean 'name'?")));
  EXPECT_THAT(complaint("[[table]]\nname = \"T1\"\ntitle = \"a\"\n"), HasSubstr("needs assumes"));
  EXPECT_THAT(complaint("[[table]]\nname = 3\n"), HasSubstr("name must be"));
  EXPECT_THAT(complaint("name = \"T1\"\n"), HasSubstr("which has tables [[table]] alone"));
  EXPECT_THAT(complaint(std::string(one_table) + one_table), HasSubstr("given to two tables"));
  EXPECT_THAT(complaint(""), HasSubstr("the index has no table"));
  EXPECT_THAT(complaint("[[table]]\nname = \"T1\"\ntitle = \"a\"\nassumes = \"b\"\nfiles = "
                        "[\"b.toml\"]\n"),
              AllOf(HasSubstr("files of table T1"), HasSubstr("b.toml: no such file")));
}

TEST(TableNames, AreFound) {
  const std::vector<PublishedTable> tables = {{.name = "T1", .title = "first"},
                                              {.name = "T2", .title = "second"}};
  EXPECT_EQ(find_tables(tables, {"T2", "T1", "T2"})[1].name, "T2");
  EXPECT_EQ(find_tables(tables, {"all"}).size(), 2u);
  EXPECT_EQ(find_tables(tables, {"T2"}).size(), 1u);
  EXPECT_THAT(testing::complaint([&] { find_tables(tables, {"T22"}); }),
              AllOf(HasSubstr("unknown table 'T22'; did you mean 'T2'?"),
                    HasSubstr("T1 (first), T2 (second), or all")));
  EXPECT_THAT(testing::complaint([&] { find_tables(tables, {}); }),
              HasSubstr("name the tables to reproduce: T1 (first), T2 (second), or all"));
}

PublishedFigure figure(double published, double here, const std::string& contradiction = "") {
  return {.experiment = "trial",
          .label = "one",
          .figure = "GB",
          .published = published,
          .here = here,
          .contradiction = contradiction};
}

TEST(Agreement, IsToThePrintedDigitRoundedOrCutOff) {
  const auto agreement = [](double published, double here) {
    return agreement_of(figure(published, here));
  };
  EXPECT_EQ(agreement(1.88, 1.875), Agreement::to_the_digit) << "rounded";
  EXPECT_EQ(agreement(4187, 4187.5), Agreement::to_the_digit) << "truncated";
  EXPECT_EQ(agreement(16.6, 16.6406), Agreement::to_the_digit);
  EXPECT_EQ(agreement(0.12, 0.1172), Agreement::to_the_digit);
  EXPECT_EQ(agreement(120, 121), Agreement::within);
  EXPECT_EQ(agreement(14, 13.02), Agreement::within) << "neither rounded nor cut off";
  EXPECT_EQ(agreement(35.6, 35.65), Agreement::to_the_digit);
  EXPECT_EQ(agreement(1, 1.5), Agreement::open) << "less than a unit, but far more than 10%";
  EXPECT_EQ(decimals_of(52.5), 1);
  EXPECT_EQ(decimals_of(0.47), 2);
  EXPECT_EQ(decimals_of(16000), 0);
}

TEST(Agreement, IsOpenUntilSomethingContradictsTheFigure) {
  EXPECT_EQ(agreement_of(figure(52, 208)), Agreement::open);
  EXPECT_EQ(agreement_of(figure(52, 208, "16 bytes each")), Agreement::contradicted);
  EXPECT_EQ(agreement_of(figure(52, 53.5, "16 bytes each")), Agreement::within);
  PublishedFigure failed = figure(52, 0, "16 bytes each");
  failed.here.reset();
  EXPECT_EQ(agreement_of(failed), Agreement::failed);
}

ReproducedTable made_up_table() {
  PublishedFigure formula = figure(1.88, 1.8751);
  formula.formula = 1.875;
  PublishedFigure measured = figure(100, 95);
  measured.simulated = false;
  measured.fitted = true;
  PublishedFigure failed = figure(3, 0);
  failed.here.reset();
  failed.error = "no memory";
  return {
      .name = "T2",
      .title = "memory",
      .assumes = "Much.",
      .figures = {formula, figure(52, 208, "13e9 x 16 = 208e9"), measured, figure(1, 2), failed}};
}

TEST(ReproducedTables, SayOfEveryFigureHowFarItAgrees) {
  const std::string text = reproduced_text(made_up_table());
  EXPECT_THAT(text, HasSubstr("## T2: memory\n\nMuch.\n"));
  EXPECT_THAT(text, Not(HasSubstr("| experiment")));
  for (const std::string line :
       {"one +\\| +1 \\| +GB \\| +1.88 \\| +1.88 \\| +- \\| +-0.3% \\| +1.88 \\| predicted, to the",
        "52 \\| +208.0 \\| +- \\| +.300.0% \\| +- \\| predicted, contradicted",
        "100 \\| +- \\| +95.0 \\| +-5.0% \\| +- \\| fitted, within 10%", "predicted, OPEN",
        "3 \\| +FAILED \\| +- \\| +- \\| +- \\| predicted, FAILED"})
    EXPECT_THAT(text, ContainsRegex(line));
  EXPECT_THAT(text, HasSubstr("Contradicted:\n\n- one: 13e9 x 16 = 208e9\n"));
  EXPECT_THAT(text, HasSubstr("FAILED:\n\n- one at world 1: no memory\n"));
  EXPECT_THAT(text, HasSubstr("T2: 5 figures, 2 within 10% (1 of them to the printed digit), 1 "
                              "contradicted, 1 open, 1 FAILED.\n"));
  EXPECT_THAT(reproduced_summary({made_up_table()}),
              ContainsRegex("T2 +\\| +5 \\| +1 \\| +1 \\| +1 \\| +1 \\| +1 \\| memory"));
  const auto json = reproduced_json({made_up_table()});
  ASSERT_EQ(json["figures"].size(), 5u);
  EXPECT_EQ(json["figures"][0]["table"], "T2");
  EXPECT_EQ(json["figures"][0]["formula"], 1.875);
  EXPECT_EQ(json["figures"][1]["simulated"], 208);
  EXPECT_TRUE(json["figures"][2]["simulated"].is_null());
  EXPECT_EQ(json["figures"][2]["measured"], 95);
  EXPECT_EQ(json["figures"][1]["verdict"], "contradicted");
}

class Reproduce : public ProgramTest {
 protected:
  Reproduce() {
    folder_.write("small.toml", R"([model]
layers = 1
heads = 2
width = 32
context = 16
[data]
kind = "synthetic"
[train]
steps = 1
warmup = 0
batch_per_rank = 1
precision = "bf16"
[device]
kind = "sim"
cluster = ")" RINGSIDE_CLUSTERS R"(/dgx-a100.toml"
[compare]
repeats = 1
worlds = [1, 2]
[[compare.case]]
label = "states"
scheme = "zero3"
published_state_gb = [0.0005, 0.002]
contradiction = "29,664 parameters of 16 bytes make 475 kB"
)");
    folder_.write("tables.toml",
                  "[[table]]\nname = \"T3\"\ntitle = \"states\"\nassumes = \"All.\"\nfiles = "
                  "[\"small.toml\"]\n");
  }
};

TEST_F(Reproduce, PrintsTablesAndWritesThem) {
  const Ended ended = run({"reproduce", "all", "--tables", "tables.toml"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("T3 (1 of 1): small.toml\n"));
  EXPECT_THAT(ended.out, AllOf(HasSubstr("## T3: states"), HasSubstr("## All tables")));
  EXPECT_THAT(ended.out,
              ContainsRegex("states +\\| +2 \\| GB of model states \\| +0.002 \\| +0.000 "
                            "\\| .*contradicted"));
  std::ifstream text(path("results/reproduce/tables.md"));
  const std::string written{std::istreambuf_iterator<char>(text), {}};
  EXPECT_EQ(written, "# Published tables\n\n" + ended.out);
  std::ifstream in(path("results/reproduce/tables.json"));
  const auto json = nlohmann::json::parse(in);
  ASSERT_EQ(json["figures"].size(), 2u);
  EXPECT_NEAR(json["figures"][0]["simulated"].get<double>(),
              json["figures"][0]["formula"].get<double>(), 1e-9)
      << "the ledger counts what the formula says";

  const Ended resumed = run({"reproduce", "T3", "--tables", "tables.toml", "--resume"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("2 of 2 runs have been made already"));
  EXPECT_EQ(resumed.out, ended.out);
}

TEST_F(Reproduce, SaysWhichTablesThereAre) {
  const Ended wrong = run({"reproduce", "T33", "--tables", "tables.toml"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_EQ(wrong.err,
            "ringside: unknown table 'T33'; did you mean 'T3'? There are: T3 (states), or all\n");
  const Ended none = run({"reproduce", "--tables", "tables.toml"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("name the tables to reproduce: T3 (states), or all"));
  const Ended elsewhere = run({"reproduce", "T3"});
  EXPECT_EQ(elsewhere.status, 2);
  EXPECT_THAT(elsewhere.err,
              HasSubstr("run `ringside reproduce` in the project's folder, or name"));
}

TEST_F(Reproduce, GoesOnWhenRunsFail) {
  std::ofstream(path("small.toml"), std::ios::app)
      << "[[compare.case]]\nlabel = \"huge\"\nscheme = \"ddp\"\nworld = 1\npublished_gb = [9]\nset "
         "= { \"model.width\" = 100_000 }\n";
  const Ended ended = run({"reproduce", "T3", "--tables", "tables.toml"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.out, ContainsRegex("huge +\\| +1 \\| +GB at peak \\| +9 \\| +FAILED"));
  EXPECT_THAT(ended.out, HasSubstr("3 figures, "));
  EXPECT_THAT(ended.out, HasSubstr("- huge at world 1: "));
}

}  // namespace
}  // namespace ringside::runner
