// report.html, and the data that it shows.
#include "experiments/runner/report/report_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/runner/report/readable_json.h"
#include "experiments/runner/report/report.h"
#include "tests/experiments/made_up_rows.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using testing::complaint;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// A page that was built without the library, so that what is looked at is short.
PageParts small_page() {
  return {.page =
              "<style>\n@STYLE@\n</style>\n@THEME@\n@FIGURES@\n<script id=\"report-data\">\n"
              "@DATA@\n</script>\n@VEGA@\n@SCRIPT@\n",
          .style = "p {}",
          .theme = "{}",
          .script = "draw('</script>')",
          .figures = "{\"a\": \"<\"}",
          .vega = "vega",
          .figures_program = ""};
}

/// The data that the page holds.
nlohmann::json data_of(const std::string& page) {
  const std::string begin = "<script id=\"report-data\">\n";
  const std::size_t at = page.find(begin) + begin.size();
  return nlohmann::json::parse(page.substr(at, page.find("\n</script>", at) - at));
}

std::vector<RunRecord> two_rows() {
  return {made_up_row("single", 1, 0, 100, "a", {2, 1}),
          made_up_row("ddp", 2, 0, 180, "a", {2, 1})};
}

nlohmann::ordered_json report_of_rows(const std::vector<RunRecord>& rows) {
  return report_of({.folder = "results/trial",
                    .rows = rows,
                    .cases = summarise(rows),
                    .environment = nlohmann::json()});
}

/// The row of a run with more workers than the made-up experiment has samples.
RunRecord row_of_many(int world) {
  RunRecord row = made_up_row("ddp", 2, 0, 100, "a", {2, 1});
  row.plan.world = world;
  for (int rank = 2; rank < world; ++rank) {
    row.plan.ranks.push_back({.rank = rank, .worker = rank});
    row.ranks.push_back(row.ranks[0]);
    row.ranks.back().rank = rank;
  }
  return row;
}

TEST(ReportPage, HoldsTheSummaryAndTheTablesOfEveryFolder) {
  const auto rows = two_rows();
  const nlohmann::json environment = {{"time", "2026-01-02T03:04:05Z"}};
  const auto one = report_of({.folder = "results/trial",
                              .rows = rows,
                              .cases = summarise(rows),
                              .environment = environment,
                              .complaints = {"rows.jsonl:2: not a row"}});
  const auto data = data_of(report_page(small_page(), {one, one}, "c0ffee", {"other: no folder"}));
  EXPECT_EQ(data["format"], 1);
  EXPECT_EQ(data["program"]["commit"], "c0ffee");
  EXPECT_EQ(data["not_read"], nlohmann::json({"other: no folder"}));
  ASSERT_EQ(data["reports"].size(), 2u);
  const auto& report = data["reports"][1];
  EXPECT_EQ(report["name"], "trial");
  EXPECT_EQ(report["folder"], "results/trial");
  EXPECT_EQ(report["made"], "2026-01-02T03:04:05Z");
  EXPECT_EQ(report["complaints"][0], "rows.jsonl:2: not a row");
  EXPECT_EQ(report["summary"], nlohmann::json(summary_json("trial", summarise(rows))));
  const auto& figures = report["tables"][0];
  EXPECT_EQ(figures["id"], "figures");
  EXPECT_EQ(figures["columns"][0], "scheme");
  ASSERT_EQ(figures["rows"].size(), 2u);
  EXPECT_EQ(figures["rows"][1][0], "ddp");
  EXPECT_EQ(figures["rows"][1].size(), figures["columns"].size());
  EXPECT_THAT(figures["note"].get<std::string>(), HasSubstr("speed-up: samples/s divided by"));
}

TEST(ReportPage, SaysWhatAllRunsHaveInCommon) {
  const auto common = report_of_rows(two_rows())["configuration"];
  EXPECT_EQ(common["train"]["global_batch"], 2);
  EXPECT_EQ(common["model"]["kind"], "gpt");
  EXPECT_FALSE(common.contains("scheme"));
  EXPECT_FALSE(common.contains("world"));
  EXPECT_FALSE(common.contains("ranks"));
}

TEST(ReportPage, NoTextEndsItsScript) {
  auto rows = two_rows();
  rows[1].plan.listing.label = "</script><b onload=\"\"> \\ & ü \xff";
  const std::string page = report_page(small_page(), {report_of_rows(rows)}, "");
  EXPECT_EQ(data_of(page)["reports"][0]["summary"]["cases"][1]["label"],
            "</script><b onload=\"\"> \\ & ü \ufffd");
  EXPECT_THAT(page, Not(HasSubstr("<b onload")));
  EXPECT_THAT(page, HasSubstr("draw('<\\/script>')"));
  EXPECT_THAT(page, HasSubstr("{\"a\": \"\\u003c\"}"));
}

TEST(ReportPage, MarksTheFastestWithoutMarkdown) {
  std::vector<RunRecord> rows;
  const double rates[] = {10, 30, 20, 25};
  for (std::size_t i = 0; i < 4; ++i)
    for (int repeat = 0; repeat < 2; ++repeat) {  // one alone would tell nothing
      RunRecord& row =
          rows.emplace_back(made_up_row(i < 2 ? "ddp" : "dp", 2, repeat, rates[i], "a", {2, 1}));
      row.plan.listing.swept = {{"train.micro_batch", i % 2 == 0 ? "1" : "2"}};
      row.plan.listing.label = row.plan.listing.family + row.plan.listing.swept[0].value;
      row.plan.id = row.plan.listing.label + "-r" + std::to_string(repeat);
    }
  const auto report = report_of_rows(rows);
  for (const auto& table : report["tables"])
    if (table["id"] == "sweep-1") {
      EXPECT_EQ(table["rows"],
                nlohmann::ordered_json({{"ddp", "10.0", "30.0"}, {"dp", "20.0", "25.0"}}));
      EXPECT_EQ(table["best"], nlohmann::ordered_json({{0, 2}, {1, 1}}));
      return;
    }
  FAIL() << "no table of the sweep";
}

TEST(ReportPage, NeedsAPlaceForEachPart) {
  PageParts parts = small_page();
  parts.page = "@DATA@\n";
  EXPECT_THAT(complaint([&] { report_page(parts, {}, ""); }), HasSubstr("1 of 6 places"));
}

TEST(ReportPage, OfTheProgramFetchesNothing) {
  const PageParts built_in = built_in_page();
  const auto figures = nlohmann::json::parse(built_in.figures);
  EXPECT_GE(figures.size(), 10u);
  EXPECT_TRUE(nlohmann::json::accept(built_in.theme));
  // What the library itself says of addresses is no request; the page is looked at without it.
  PageParts parts = built_in;
  parts.vega = "";
  const std::string page = report_page(parts, {report_of_rows(two_rows())}, "");
  for (const char* request : {" src=", "href=\"http", "url(", "@import", "import(", "fetch("})
    EXPECT_THAT(page, Not(HasSubstr(request)));
  EXPECT_THAT(page, HasSubstr("id=\"report-data\""));
  if (!can_draw(built_in)) GTEST_SKIP() << how_to_get_reports();
  EXPECT_THAT(std::string(built_in.vega), HasSubstr("vegaEmbed"));
}

TEST(ReportPage, Of100CasesIsBelow6Megabytes) {
  std::vector<RunRecord> rows;
  for (int i = 0; i < 100; ++i) {
    RunRecord& row = rows.emplace_back(row_of_many(16));
    row.loss.clear();
    row.samples_per_s += i;
    row.plan.listing.label = row.plan.listing.family = "ddp with a long name " + std::to_string(i);
    row.plan.id = row.plan.listing.label;
    row.plan.train.micro_batch = i + 1;
    row.plan.listing.line = i;
    for (int step = 0; step < 400; ++step) {
      row.loss.push_back(1.0 / (3 + step));
      row.evaluations.push_back({.step = step, .loss = 1.0 / (7 + step), .training_s = step / 7.0});
    }
    for (RankRecord& rank : row.ranks) rank.host = "some-host-with-a-name";
  }
  const auto report = report_of_rows(rows);
  ASSERT_EQ(report["summary"]["cases"].size(), 100u);
  EXPECT_LT(report_page(built_in_page(), {report}, "").size(), 6'000'000u);
}

TEST(SweepsInSummaries, HaveNumbersAndSayWhereTheFastestChanges) {
  std::vector<RunRecord> rows;
  const double rates[][3] = {{10, 20, 30}, {5, 25, 80}};
  const char* const values[] = {"1", "10", "all"};
  for (std::size_t scheme = 0; scheme < 2; ++scheme)
    for (std::size_t v = 0; v < 3; ++v)
      for (int repeat = 0; repeat < 2; ++repeat) {  // one alone would tell nothing
        RunRecord& row = rows.emplace_back(
            made_up_row(scheme == 0 ? "dp" : "ddp", 2, repeat, rates[scheme][v], "a", {2, 1}));
        row.plan.listing.swept = {{"scheme.key", values[v]}};
        row.plan.listing.label = row.plan.listing.family + values[v];
        row.plan.id = row.plan.listing.label + "-r" + std::to_string(repeat);
      }
  const auto sweeps = summary_json("trial", summarise(rows))["sweeps"];
  ASSERT_EQ(sweeps.size(), 1u);
  const auto& sweep = sweeps[0];
  EXPECT_EQ(sweep["key"], "scheme.key");
  EXPECT_EQ(sweep["world"], 2);
  EXPECT_EQ(sweep["values"], nlohmann::ordered_json({1.0, 10.0, "all"}));
  EXPECT_EQ(sweep["numeric"], false);
  EXPECT_EQ(sweep["lines"][1]["figures"], nlohmann::ordered_json({5.0, 25.0, 80.0}));
  EXPECT_EQ(sweep["fastest"], nlohmann::ordered_json({"dp", "ddp", "ddp"}));
  EXPECT_EQ(
      sweep["changes"],
      nlohmann::ordered_json({{{"after", 1.0}, {"before", 10.0}, {"from", "dp"}, {"to", "ddp"}}}));
}

TEST(ReadableJson, HasAListOfPlainValuesOnOneLine) {
  const nlohmann::ordered_json value = {{"b", {1, 2.5, nullptr}},
                                        {"a", {{{"c", "\""}}, nlohmann::ordered_json::object()}}};
  const std::string text = readable_json(value);
  EXPECT_EQ(
      text,
      "{\n  \"b\": [1,2.5,null],\n  \"a\": [\n    {\n      \"c\": \"\\\"\"\n    },\n    {}\n  ]\n}"
      "\n");
  EXPECT_EQ(nlohmann::ordered_json::parse(text), value);
}

TEST(Summaries, OfRowsThatCannotBeToldApartHaveOneOfThem) {
  RunRecord row = made_up_row("ddp", 2, 0, 100, "a", {2, 1}), other = row;
  other.plan.listing.label =
      "another";  // under the same name, as in a folder that was put together
  EXPECT_EQ(summarise({row, other}).size(), 1u);
}

std::vector<int> ranks_of(const MemorySummary& memory) {
  std::vector<int> out;
  for (const RankMemory& rank : memory.ranks) out.push_back(rank.rank);
  return out;
}

TEST(MemoryOfRanks, IsThatOfEveryRankOfAFew) {
  RunRecord row = made_up_row("ddp", 2, 0, 100, "a", {2, 1}),
            again = made_up_row("ddp", 2, 1, 100, "a", {2, 1});
  again.ranks[1].at_peak[MemoryKind::gradient] = 3'000'000;
  row.ranks[0].host = "here";
  const MemorySummary memory = summarise({row, again})[0].memory;
  ASSERT_THAT(ranks_of(memory), ElementsAre(0, 1));
  EXPECT_EQ(memory.ranks_left_out, 0);
  EXPECT_EQ(memory.ranks[0].host, "here");
  EXPECT_EQ(memory.ranks[0].peak, 2'000'000);
  EXPECT_EQ(memory.ranks[1].peak, 4'000'000);  // of the repeat with the larger peak
  EXPECT_EQ(memory.ranks[1].at_peak[MemoryKind::gradient], 3'000'000);
}

TEST(MemoryOfRanks, OfManyIsThatOfTheFirstAndTheBusiest) {
  RunRecord row = row_of_many(20);
  row.ranks[17].at_peak[MemoryKind::gradient] = 9'000'000;
  const MemorySummary memory = summarise({row})[0].memory;
  EXPECT_THAT(ranks_of(memory), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 17));
  EXPECT_EQ(memory.ranks_left_out, 11);
}

TEST(SetupOfCases, SaysWhatARepetitionNeeds) {
  RunRecord row = made_up_row("fsdp", 2, 0, 100, "a", {2, 1});
  row.parameters = 123;
  row.tokens_per_s = 6400;
  row.ranks[0].host = row.ranks[1].host = "here";
  const auto setup = summary_json("trial", summarise({row}))["cases"][0]["setup"];
  EXPECT_EQ(setup["parameters"], 123);
  EXPECT_EQ(setup["sequence"], 64);
  EXPECT_EQ(setup["global_batch"], 2);
  EXPECT_EQ(setup["micro_batch"], 1);
  EXPECT_EQ(setup["hosts"], nlohmann::ordered_json({"here"}));
  EXPECT_EQ(setup["shard"], setup["options"]["shard"]);
  EXPECT_EQ(setup["dtypes"]["master"], "fp32");
  EXPECT_EQ(setup["seeds"].size(), 1u);
}

}  // namespace
}  // namespace ringside::runner
