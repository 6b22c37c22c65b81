// Published figures: from the cases of a file to the table of `ringside validate`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "experiments/runner/plan/planner.h"
#include "experiments/runner/report/published.h"
#include "experiments/tools/bench/published_collectives.h"
#include "tests/experiments/made_up_rows.h"
#include "tests/experiments/program_test.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using testing::Ended;
using ::testing::HasSubstr;
using ::testing::Not;

/// Plans the experiment with this case of ddp.
class PublishedCases : public ::testing::Test {
 protected:
  std::vector<RunPlan> planned(const std::string& lines, const std::string& more = "") const {
    const std::string file =
        folder_.write("trial.toml", "[data]\nkind = \"synthetic\"\n" + more +
                                        "[[compare.case]]\nscheme = \"ddp\"\n" + lines);
    return plan_comparison(read_experiment(file, {}));
  }
  std::string complaint(const std::string& lines, const std::string& more = "") const {
    return testing::complaint([&] { planned(lines, more); });
  }
  testing::TemporaryFolder folder_;
};

TEST_F(PublishedCases, GiveEachWorldItsFigure) {
  int of_one = 0, of_two = 0;
  for (const RunPlan& run : planned(
           "worlds = [1, 2]\npublished_ms = [30, 20]\nfitted = [1]\nset = { train.steps = 9 }\n")) {
    if (run.purpose != Purpose::asked) {
      EXPECT_TRUE(run.listing.published.empty()) << run.id;
      continue;
    }
    ASSERT_EQ(run.listing.published.size(), 1u) << run.id;
    EXPECT_EQ(run.listing.published[0],
              (run.world == 1 ? Published{.value = 30, .fitted = true} : Published{.value = 20}));
    ++(run.world == 1 ? of_one : of_two);
  }
  EXPECT_GT(of_one, 0);
  EXPECT_GT(of_two, 0);
}

TEST_F(PublishedCases, MaySaySeveralThings) {
  for (const RunPlan& run : planned(
           "worlds = [1, 2]\npublished_speed_up = [1, 1.6]\npublished_hours = [7, 4]\nsamples = "
           "150_000\npublished_state_gb = [16, 8.5]\ncontradiction = \"so not\"\n")) {
    if (run.purpose != Purpose::asked || run.world == 1) continue;
    const std::vector<Published> expected = {
        {.measure = Measure::speed_up, .value = 1.6, .contradiction = "so not"},
        {.measure = Measure::hours, .value = 4, .samples = 150'000, .contradiction = "so not"},
        {.measure = Measure::state_gb, .value = 8.5, .contradiction = "so not"}};
    EXPECT_EQ(run.listing.published, expected);
  }
}

TEST_F(PublishedCases, MayCompareWithTheOnlyWorldOfAnother) {
  const std::string more = "[[compare.case]]\nscheme = \"fsdp\"\nlabel = \"base\"\nworlds = ";
  const std::string lines = "world = 4\npublished_times = [1.9]\nover = \"base\"\n";
  EXPECT_NO_THROW(planned(lines, more + "[2]\n"));
  EXPECT_NO_THROW(planned(lines, more + "[2, 4]\n"));
  EXPECT_THAT(complaint(lines, more + "[1, 2]\n"),
              HasSubstr("over = 'base' names no other case with this label at world 4, nor at one "
                        "world alone"));
  EXPECT_THAT(complaint("world = 4\npublished_speed_up = [1.9]\nover = \"base\"\n", more + "[2]\n"),
              HasSubstr("names no other case with this label at world 1"));
}

TEST_F(PublishedCases, ThatAreWrongAreNamed) {
  EXPECT_THAT(complaint("worlds = [1, 2]\npublished_ms = [30]\n"),
              HasSubstr("published_ms has 1 figures for 2 worlds; give one for each of worlds = "
                        "[1, 2]"));
  EXPECT_THAT(complaint("world = 1\npublished_times = [3]\n"),
              HasSubstr("published_times needs over"));
  EXPECT_THAT(complaint("world = 1\npublished_ms = [3]\nover = \"slow\"\n"),
              HasSubstr("over = 'slow' is for published_times and published_speed_up"));
  EXPECT_THAT(complaint("world = 1\npublished_hours = [3]\n"),
              HasSubstr("published_hours and samples (at least 1) are given together"));
  EXPECT_THAT(
      complaint("world = 2\npublished_speed_up = [3]\n"),
      HasSubstr("published_speed_up is over world 1, which is not among the case's worlds"));
  EXPECT_THAT(complaint("world = 2\npublished_speed_up = [3]\nover = \"slow\"\n"),
              HasSubstr("over = 'slow' names no other case with this label at world 1"));
  EXPECT_THAT(complaint("world = 1\ncontradiction = \"because\"\n"),
              HasSubstr("contradiction says why published figures cannot be right, and none are"));
  EXPECT_THAT(complaint("world = 1\npublished_times = [3]\nover = \"slow\"\n"),
              HasSubstr("over = 'slow' names no other case with this label at world 1"));
  EXPECT_THAT(complaint("world = 1\npublished_per_s = [3]\nfitted = [2]\n"),
              HasSubstr("fitted names world 2, of which no figure is published"));
  EXPECT_THAT(complaint("world = 1\npublished_per_s = [0]\n"),
              HasSubstr("published_per_s = 0 must be more than 0"));
  EXPECT_THAT(complaint("world = 1\npublished_per_s = [3]\n",
                        "[compare.sweep]\n\"train.steps\" = [9, 10]\n"),
              HasSubstr("leave out compare.sweep"));
}

Published per_s(double value) { return {.measure = Measure::samples_per_s, .value = value}; }

RunRecord published_row(const std::string& scheme, int world, double samples_per_s,
                        const Published& published) {
  RunRecord row = made_up_row(scheme, world, 0, samples_per_s, "a", {2, 1});
  row.plan.listing.published = {published};
  return row;
}

/// The first figure that was published of the case.
PublishedFigure published_figure(const CaseSummary& one, const std::vector<CaseSummary>& cases) {
  return published_figures(one, cases).at(0);
}

TEST(PublishedReport, SaysHowFarEveryFigureIsOff) {
  // A made-up step has two samples: 100 a second take 20 ms.
  const auto cases =
      summarise({published_row("single", 1, 100, {.value = 25, .fitted = true}),
                 published_row("ddp", 1, 100, per_s(125)), published_row("ddp", 2, 180, per_s(200)),
                 made_up_row("ps", 2, 0, 150, "a", {2, 1})});
  EXPECT_DOUBLE_EQ(published_figure(cases[0], cases).deviation().value(), 20.0 / 25 - 1);
  EXPECT_DOUBLE_EQ(published_figure(cases[1], cases).deviation().value(), 100.0 / 125 - 1);
  EXPECT_TRUE(published_figures(cases[3], cases).empty()) << "nothing was published of ps";
  const std::string text = published_text(published_figures(cases));
  EXPECT_THAT(text,
              ContainsRegex("trial +\\| single \\| +1 \\| +step ms \\| +25.0 \\| +20.0 \\| +-20.0% "
                            "\\| fitted"));
  EXPECT_THAT(text, ContainsRegex("ddp +\\| +2 \\| samples/s \\| +200.0 \\| +180.0 \\| +-10.0% \\| "
                                  "predicted"));
  EXPECT_THAT(text, Not(HasSubstr("ps")));
  EXPECT_THAT(text,
              HasSubstr("trial, 2 predicted: median -15.0%, largest -20.0% (ddp at world 1)."));
  EXPECT_THAT(text, HasSubstr("trial, 1 fitted: median -20.0%"));
  EXPECT_THAT(summary_text(cases), HasSubstr(text));
  const auto json = summary_json("trial", cases)["cases"];
  EXPECT_DOUBLE_EQ(json[2]["published"][0]["deviation"].get<double>(), 180.0 / 200 - 1);
  EXPECT_TRUE(json[3]["published"].empty());
}

TEST(PublishedReport, CountsTheFiguresWithinTheirIntervals) {
  RunRecord close = published_row("ddp", 1, 100, per_s(109));
  close.bounds = {18, 22};  // of 20 ms: 90.9 to 111.1 samples a second
  RunRecord off = published_row("ddp", 2, 100, {.value = 23});
  off.bounds = {18, 22};
  const auto cases = summarise({close, off, published_row("ps", 2, 100, {.value = 20})});
  const std::string text = published_text(published_figures(cases));
  EXPECT_THAT(text, HasSubstr("[90.9, 111.1]"));
  EXPECT_THAT(text, HasSubstr("[18.0, 22.0]"));
  EXPECT_THAT(text, HasSubstr(", 1 of 2 within their intervals.\n"));
}

TEST(PublishedReport, ComparesWithAnotherCase) {
  RunRecord slow = made_up_row("ddp", 2, 0, 100, "a", {2, 1});
  RunRecord fast =
      published_row("ps", 2, 150, {.measure = Measure::times, .value = 1.2, .over = "ddp"});
  const auto cases = summarise({slow, fast});
  EXPECT_DOUBLE_EQ(published_figure(cases[1], cases).deviation().value(), 1.5 / 1.2 - 1);
  EXPECT_THAT(
      published_text(published_figures(cases)),
      ContainsRegex("ps \\| +2 \\| times ddp \\| +1.20 \\| 1.50 \\| +.25.0% \\| predicted"));
  EXPECT_EQ(summary_json("trial", cases)["cases"][1]["published"][0]["figure"], "times ddp");
  slow.status = "failed";
  slow.error = "no memory";
  const auto failed = summarise({slow, fast});
  EXPECT_FALSE(published_figure(failed[1], failed).deviation()) << "there is nothing to compare";
}

TEST(PublishedReport, ComparesWithTheOnlyWorldOfAnotherCase) {
  const RunRecord base = made_up_row("ddp", 2, 0, 100, "a", {2, 1});
  const RunRecord one =
      published_row("ps", 1, 190, {.measure = Measure::times, .value = 2, .over = "ddp"});
  const auto cases = summarise({base, one});
  EXPECT_DOUBLE_EQ(*published_figures(cases).at(0).here, 1.9);
  const auto same = summarise({base, made_up_row("ddp", 1, 0, 95, "a", {2, 1}), one});
  EXPECT_DOUBLE_EQ(*published_figures(same).at(0).here, 2) << "the same world comes first";
}

TEST(PublishedReport, KnowsSpeedUpsHoursAndMemory) {
  RunRecord one = made_up_row("ddp", 1, 0, 100, "a", {2, 1});
  RunRecord two = made_up_row("ddp", 2, 0, 160, "a", {2, 1});
  two.parameters = 1'000'000;
  two.ranks[0].at_peak[MemoryKind::parameter] = 2'000'000;
  two.ranks[0].at_peak[MemoryKind::gradient] = 3'000'000;
  two.ranks[0].at_peak[MemoryKind::optimizer] = 5'000'000;
  two.ranks[0].at_peak[MemoryKind::activation] = 7'000'000;
  two.bounds = {10, 25};  // of 12.5 ms
  two.plan.listing.published = {{.measure = Measure::speed_up, .value = 2},
                                {.measure = Measure::hours, .value = 1, .samples = 576'000},
                                {.measure = Measure::parameter_gb, .value = 0.001},
                                {.measure = Measure::state_gb, .value = 0.01},
                                {.measure = Measure::peak_gb, .value = 0.017}};
  const auto figures = published_figures(summarise({one, two}));
  ASSERT_EQ(figures.size(), 5u);
  EXPECT_DOUBLE_EQ(*figures[0].here, 1.6);
  EXPECT_DOUBLE_EQ(*figures[1].here, 1);
  EXPECT_DOUBLE_EQ(figures[1].interval->high, 2);
  EXPECT_DOUBLE_EQ(*figures[2].here, 0.002);
  EXPECT_DOUBLE_EQ(*figures[3].here, 0.01);
  EXPECT_DOUBLE_EQ(*figures[3].formula, 0.016) << "fp32: 4 + 4 + 8 bytes of a parameter";
  EXPECT_DOUBLE_EQ(*figures[4].here, 0.017);
  EXPECT_DOUBLE_EQ(*figures[4].formula, 0.016) << "of the states in it";
  EXPECT_FALSE(figures[0].simulated) << "the runs are of this machine's processor";
  EXPECT_EQ(figures[0].figure, "speed-up");
}

TEST(PublishedReport, KnowsHowTheStateOfAModelIsDivided) {
  const auto formula = [](const std::string& scheme, Precision precision) {
    ExperimentConfig config = made_up_experiment();
    config.train.precision = precision;
    const auto bytes = state_formula(plan_training(config, scheme, 2), 1000);
    return bytes ? bytes->total() : -1;
  };
  EXPECT_EQ(formula("ddp", Precision::fp32), 16'000);
  EXPECT_EQ(formula("zero1", Precision::bf16), 4'000 + 6'000);
  EXPECT_EQ(formula("zero2", Precision::bf16), 2'000 + 7'000);
  EXPECT_EQ(formula("zero3", Precision::bf16), 8'000);
  EXPECT_EQ(formula("fsdp", Precision::bf16), 8'000);
  EXPECT_EQ(formula("ps", Precision::bf16), -1);
}

TEST(PublishedReport, NamesWhatFailed) {
  RunRecord row = published_row("ddp", 2, 180, per_s(200));
  row.status = "failed";
  row.error = "no memory";
  const auto cases = summarise({row});
  EXPECT_FALSE(published_figure(cases[0], cases).deviation());
  EXPECT_THAT(published_text(published_figures(cases)),
              ContainsRegex("200.0 \\| FAILED \\| +- \\| predicted"));
  EXPECT_EQ(
      published_text(published_figures(summarise({made_up_row("ps", 2, 0, 150, "a", {2, 1})}))),
      "");
}

class Validate : public ProgramTest {
 protected:
  void small(const std::string& file, const std::string& published) const {
    folder_.write(file, R"([model]
layers = 1
heads = 2
width = 32
context = 16
[data]
kind = "synthetic"
[train]
steps = 3
warmup = 1
global_batch = 8
[device]
kind = "sim"
cluster = ")" RINGSIDE_CLUSTERS R"(/dgx-a100.toml"
[compare]
repeats = 1
[[compare.case]]
scheme = "ddp"
worlds = [1, 8]
)" + published);
  }
};

TEST_F(Validate, PrintsOneTableForAllFiles) {
  small("first.toml", "published_ms = [100, 10]\nfitted = [1]\n");
  small("second.toml", "published_per_s = [1, 2]\n");
  const Ended ended = run({"validate", "first.toml", "second.toml"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  for (const std::string line : {"first +\\| +ddp +\\| +1 \\| +step ms \\| +100.0 .* fitted",
                                 "first +\\| +ddp +\\| +8 \\| +step ms \\| +10.0 .* predicted",
                                 "second +\\| +ddp +\\| +8 \\| samples/s \\| +2.00 .* predicted"})
    EXPECT_THAT(ended.out, ContainsRegex(line));
  EXPECT_THAT(ended.out, AllOf(HasSubstr("first, 1 predicted: median "),
                               HasSubstr("second, 2 predicted: median ")));
  EXPECT_TRUE(std::filesystem::exists(path("results/second/summary.json")));
}

TEST_F(Validate, NeedsFilesThatSayWhatWasPublished) {
  small("none.toml", "");
  const Ended ended = run({"validate", "none.toml"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.err, HasSubstr("none.toml: no case says what was published of it"));
  EXPECT_FALSE(std::filesystem::exists(path("results"))) << "nothing runs before it is refused";
  EXPECT_EQ(run({"validate", "nowhere.toml"}).status, 2);
}

/// Files of collectives for `ringside validate`.
class PublishedCollectives : public ::testing::Test {
 protected:
  std::string complaint(const std::string& lines) const {
    const std::string file = folder_.write("trial.toml", "[[collective]]\n" + lines);
    return testing::complaint([&] { tools::bench::read_collectives(file); });
  }
  testing::TemporaryFolder folder_;
};

constexpr const char* one_collective = "label = \"A100\"\ncluster = \"" RINGSIDE_CLUSTERS
                                       "/dgx-a100.toml\"\nworld = 8\nsizes_mib = [1, 1024]\n";

TEST_F(PublishedCollectives, AreSimulated) {
  const std::string file =
      folder_.write("trial.toml", std::string("[[collective]]\n") + one_collective +
                                      "busbw = [10, 200]\nfitted = [1]\n");
  ASSERT_TRUE(tools::bench::lists_collectives(file));
  const auto figures =
      tools::bench::simulate_collectives(tools::bench::read_collectives(file), "trial");
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[0].experiment, "trial");
  EXPECT_EQ(figures[0].world, 8);
  EXPECT_TRUE(figures[0].fitted);
  EXPECT_FALSE(figures[1].fitted);
  EXPECT_EQ(figures[1].figure, "GB/s, 1024 MiB");
  // 14 steps of 3.4 us and the rates of the catalog bound what a ring reaches.
  EXPECT_GT(*figures[1].here, 200);
  EXPECT_LT(*figures[1].here, 235);
  EXPECT_LT(*figures[0].here, 1.75 * (1 << 20) / (14 * 3.4e-6) / 1e9);
  EXPECT_THAT(published_text(figures), HasSubstr("GB/s, 1024 MiB"));
}

TEST_F(PublishedCollectives, OfSmallArraysAreTimes) {
  const std::string file = folder_.write(
      "trial.toml", "[[collective]]\nlabel = \"A100\"\ncluster = \"" RINGSIDE_CLUSTERS
                    "/a100-128x8.toml\"\nworld = 256\nsizes_b = [512, 1024]\nus = [63, 64]\n");
  const auto figures =
      tools::bench::simulate_collectives(tools::bench::read_collectives(file), "trial");
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[0].figure, "us, 512 B");
  EXPECT_DOUBLE_EQ(figures[0].published, 63);
  EXPECT_DOUBLE_EQ(figures[1].published, 64);
  // A tree with LL: 2 x 7 steps of 1 us, which is NVLink's latency, and 2 x 5 of 5 us.
  EXPECT_NEAR(*figures[0].here, 6.8 + 14 + 50, 0.1);
  const auto rings =
      tools::bench::simulate_collectives(tools::bench::read_collectives(file), "trial", false);
  EXPECT_GT(*rings[0].here, 446 * 3.4 + 64 * 9.6);
}

TEST_F(PublishedCollectives, ThatAreWrongAreNamed) {
  EXPECT_THAT(
      complaint(one_collective + std::string("busbw = [10, 20]\nsizes_b = [8]\nus = [1]\n")),
      HasSubstr("give either sizes_mib and busbw or sizes_b and us"));
  EXPECT_THAT(complaint("label = \"a\"\ncluster = \"a\"\nsizes_b = [8]\n"),
              HasSubstr("us has 0 figures for 1 sizes"));
  EXPECT_THAT(complaint("label = \"a\"\n"), HasSubstr("needs a label and a cluster"));
  EXPECT_THAT(complaint("labl = \"a\"\n"), HasSubstr("did you mean 'label'?"));
  EXPECT_THAT(complaint(one_collective + std::string("busbw = [10]\n")),
              HasSubstr("busbw has 1 figures for 2 sizes"));
  EXPECT_THAT(complaint(one_collective + std::string("busbw = [10, 0]\n")),
              HasSubstr("busbw: 0 must be above 0"));
  EXPECT_THAT(complaint(one_collective + std::string("busbw.x = [10, 20]\n")),
              HasSubstr("unknown key 'busbw.x'"));
  EXPECT_THAT(
      complaint(one_collective + std::string("busbw = [10, 20]\noperation = \"allreduce\"\n")),
      AllOf(HasSubstr("trial.toml:1"), HasSubstr("allreduce")));
  EXPECT_THAT(complaint("label = \"a\"\ncluster = \"" RINGSIDE_CLUSTERS
                        "/dgx-a100.toml\"\nworld = 9\nsizes_mib = [1]\nbusbw = [10]\n"),
              HasSubstr("world = 9: cluster dgx-a100 has 8 devices; choose from 2 to 8"));
  EXPECT_THAT(complaint("label = \"a\"\ncluster = \"none.toml\"\nsizes_mib = [1]\nbusbw = [1]\n"),
              HasSubstr("none.toml: no such file"));
  EXPECT_THAT(complaint(one_collective + std::string("busbw = [10, 20]\nfitted = [2]\n")),
              HasSubstr("fitted: 2 is not among sizes_mib"));
}

}  // namespace
}  // namespace ringside::runner
