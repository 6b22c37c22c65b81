// The tables of a sweep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/runner/report/sweep.h"
#include "tests/experiments/made_up_rows.h"

namespace ringside::runner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// A case of a simulated cluster that states no errors, so that its figures are exact.
CaseSummary swept(const std::string& family, double rate, std::vector<Setting> swept) {
  CaseSummary one;
  one.plan.cluster.emplace().name = "exact";
  one.plan.listing.family = family;
  one.plan.listing.label = family;
  one.plan.world = 8;
  one.runs.repeats = 1;
  one.samples_per_s = rate;
  one.plan.listing.swept = std::move(swept);
  return one;
}

std::vector<CaseSummary> of_networks() {
  std::vector<CaseSummary> cases;
  const double dp[] = {10, 20, 30}, ddp[] = {5, 25, 80};
  const char* const rates[] = {"1", "10", "100"};
  for (std::size_t i = 0; i < 3; ++i) {
    cases.push_back(swept("dp", dp[i], {{"sim.network_gbit_s", rates[i]}}));
    cases.push_back(swept("ddp", ddp[i], {{"sim.network_gbit_s", rates[i]}}));
  }
  return cases;
}

std::vector<int> fastest_of(const SweepTable& table) {
  std::vector<int> out;
  for (std::size_t v = 0; v < table.values.size(); ++v) out.push_back(table.fastest(v));
  return out;
}

TEST(Sweeps, StandInATableThatMarksTheFastest) {
  const auto tables = sweep_of(of_networks());
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].key, "sim.network_gbit_s");
  EXPECT_EQ(tables[0].fixed, "world 8");
  EXPECT_THAT(tables[0].values, ElementsAre("1", "10", "100"));
  ASSERT_EQ(tables[0].lines.size(), 2u);
  EXPECT_THAT(tables[0].lines[1].figures, ElementsAre(5, 25, 80));
  EXPECT_THAT(fastest_of(tables[0]), ElementsAre(0, 1, 1));
  const std::string text = sweep_tables(of_networks());
  EXPECT_THAT(text, HasSubstr("sim.network_gbit_s 1"));
  EXPECT_THAT(text, HasSubstr("**10.0**"));
  EXPECT_THAT(text, HasSubstr("Fastest: dp at 1; ddp from 10 on."));
}

TEST(Sweeps, HaveSingleBesideEveryWorld) {
  auto cases = of_networks();
  for (const char* rate : {"1", "10", "100"}) {
    cases.push_back(swept("single", 12, {{"sim.network_gbit_s", rate}}));
    cases.back().plan.scheme = "single";
    cases.back().plan.world = 1;
  }
  const auto tables = sweep_of(cases);
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_THAT(tables[0].lines[2].figures, ElementsAre(12, 12, 12));
  EXPECT_THAT(sweep_tables(cases), HasSubstr("Fastest: single at 1; ddp from 10 on."));
}

TEST(Sweeps, RankNeitherOwnAlgorithmsNorOtherTrainingRuns) {
  auto cases = of_networks();
  for (CaseSummary& one : cases)
    if (one.plan.listing.family == "ddp") one.plan.promise = Promise::own_algorithm;
  EXPECT_THAT(fastest_of(sweep_of(cases)[0]), ElementsAre(0, 0, 0));
  EXPECT_THAT(sweep_tables(cases), HasSubstr("80.0*"));
  cases = of_networks();
  cases[5].verdict.proof = Proof::different;
  EXPECT_THAT(fastest_of(sweep_of(cases)[0]), ElementsAre(0, 1, 0));
  cases[5].verdict.proof = Proof::not_shown;
  cases[5].plan.ranks = {{.rank = 0, .ordinal = 0}, {.rank = 1, .ordinal = 0}};
  EXPECT_THAT(fastest_of(sweep_of(cases)[0]), ElementsAre(0, 1, 0));
}

/// What ties() calls not ranked has no fastest line either.
TEST(Sweeps, NameNoFastestWhereIntervalsOverlap) {
  auto cases = of_networks();
  for (CaseSummary& one : cases) {  // 20% to either side of the step
    one.step_ms = 1e3 / one.samples_per_s;
    one.simulated_ms = Interval{one.step_ms / 1.2, one.step_ms * 1.2};
  }
  const SweepTable table = sweep_of(cases)[0];
  EXPECT_THAT(fastest_of(table), ElementsAre(0, -1, 1)) << "20 and 25 samples/s are not told apart";
  EXPECT_THAT(table.leading[1], ElementsAre(0, 1));
  const std::string text = sweep_tables(cases);
  EXPECT_THAT(text, HasSubstr("Fastest: dp at 1; dp or ddp at 10 (not told apart); ddp at 100."));
  EXPECT_THAT(text, Not(HasSubstr("**25.0**")));
  const auto changes = crossovers(table);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].after, 0u);
  EXPECT_EQ(changes[0].before, 2u);
  EXPECT_TRUE(to_json(table)["fastest"][1].is_null());
  EXPECT_EQ(to_json(table)["leading"][1], nlohmann::ordered_json({"dp", "ddp"}));
}

TEST(Sweeps, NameNoFastestOfMeasurementsThatAreNotToldApart) {
  auto cases = of_networks();
  cases.push_back(swept("ps", 1, {}));
  for (CaseSummary& one : cases) one.plan.cluster.reset();
  EXPECT_THAT(sweep_tables(cases), Not(HasSubstr("Fastest"))) << "one repeat has no interval";
  for (CaseSummary& one : cases) {
    one.runs.repeats = 3;
    one.spread = 0.1;
  }
  EXPECT_THAT(sweep_tables(cases), HasSubstr("Fastest: dp at 1; ddp from 10 on."));
  for (CaseSummary& one : cases) {  // repeats that were measured beside each other tell more
    one.baseline = 1;
    one.spread = 0.9;
    one.speed_up = {one.samples_per_s / 5,
                    Interval{one.samples_per_s / 5.5, one.samples_per_s / 4.5}};
  }
  EXPECT_THAT(sweep_tables(cases), HasSubstr("Fastest: dp at 1; ddp from 10 on."));
  EXPECT_TRUE(ties({cases[2], cases[3]}).empty());
  cases[3].speed_up.interval = cases[2].speed_up.interval;
  EXPECT_THAT(sweep_tables(cases),
              HasSubstr("Fastest: dp at 1; dp or ddp at 10 (not told apart); ddp at 100."));
  EXPECT_EQ(ties({cases[2], cases[3]}).size(), 1u);
}

TEST(Sweeps, AFailedCaseHasNoFigure) {
  auto cases = of_networks();
  cases[5].runs.failed = 1;
  const auto tables = sweep_of(cases);
  EXPECT_LT(tables[0].lines[1].figures[2], 0);
  EXPECT_THAT(fastest_of(tables[0]), ElementsAre(0, 1, 0));
  EXPECT_THAT(sweep_tables(cases), HasSubstr("Fastest: dp at 1; ddp at 10; dp at 100."));
}

TEST(Sweeps, OfTwoKeysHaveATableForEachValueOfTheOther) {
  std::vector<CaseSummary> cases;
  for (const char* precision : {"fp32", "bf16"})
    for (CaseSummary one : of_networks()) {
      one.plan.listing.swept.push_back({"train.precision", precision});
      cases.push_back(one);
    }
  const auto tables = sweep_of(cases);
  ASSERT_EQ(tables.size(), 5u);
  EXPECT_EQ(tables[0].fixed, "world 8, train.precision = fp32");
  EXPECT_EQ(tables[1].lines.size(), 2u);
  EXPECT_EQ(tables[4].key, "train.precision");
  EXPECT_EQ(tables[4].fixed, "world 8, sim.network_gbit_s = 100");
  EXPECT_THAT(tables[4].values, ElementsAre("fp32", "bf16"));
  EXPECT_THAT(tables[4].lines[1].figures, ElementsAre(80, 80));
  EXPECT_THAT(sweep_tables(cases), Not(HasSubstr("samples/s, world 8, sim.network_gbit_s = 100")));
}

TEST(Sweeps, OfEqualKeysTheFirstStandsInTexts) {
  std::vector<CaseSummary> cases;
  for (const char* precision : {"fp32", "bf16"})
    for (const char* batch : {"8", "16"})
      cases.push_back(swept(
          "ddp", 5,
          {{"train.precision", precision}, {"train.global_batch", batch}, {"train.steps", "30"}}));
  const auto tables = sweep_of(cases);
  ASSERT_EQ(tables.size(), 4u) << "the steps have one value";
  EXPECT_EQ(tables[0].key, "train.global_batch");
  EXPECT_TRUE(tables[1].longest);
  EXPECT_EQ(tables[2].key, "train.precision");
  EXPECT_FALSE(tables[2].longest);
}

TEST(Sweeps, ASchemeWithoutTheKeyHasOneFigureForAllValues) {
  std::vector<CaseSummary> cases = {swept("ddp", 5, {{"scheme.ddp.bucket_mb", "1"}}),
                                    swept("ddp", 7, {{"scheme.ddp.bucket_mb", "25"}}),
                                    swept("fsdp", 6, {})};
  const auto tables = sweep_of(cases);
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_THAT(tables[0].lines[1].figures, ElementsAre(6, 6));
  EXPECT_THAT(fastest_of(tables[0]), ElementsAre(1, 0));
  cases[0].plan.purpose = cases[1].plan.purpose = Purpose::reference;
  EXPECT_THAT(sweep_of(cases), IsEmpty()) << "references do not count";
}

/// of_networks() with times to loss, as algorithms of their own.
std::vector<CaseSummary> with_times() {
  auto cases = of_networks();
  const double seconds[] = {4, 16, 3, 3, 2, 1};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    cases[i].plan.promise = Promise::own_algorithm;
    cases[i].time_to_loss.emplace().seconds = Spread{seconds[i], {seconds[i], seconds[i]}};
  }
  return cases;
}

/// Algorithms of their own are compared by their times to loss.
TEST(Sweeps, OfTimesToLossRankOwnAlgorithms) {
  auto cases = with_times();
  const auto tables = sweep_of(cases);
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[1].quantity, SweepQuantity::seconds_to_loss);
  EXPECT_EQ(to_json(tables[1])["quantity"], "seconds to loss");
  EXPECT_THAT(tables[1].lines[1].figures, ElementsAre(16, 3, 1));
  EXPECT_THAT(fastest_of(tables[1]), ElementsAre(0, -1, 1)) << "3 s and 3 s";
  const std::string text = sweep_tables(cases);
  EXPECT_THAT(text, HasSubstr("| seconds to loss, world 8 |"));
  EXPECT_THAT(text, HasSubstr("**4** "));
  EXPECT_THAT(text, HasSubstr("Fastest: dp at 1; dp or ddp at 10 (not told apart); ddp at 100."));
  cases[5].time_to_loss->seconds.reset();
  EXPECT_LT(sweep_of(cases)[1].lines[1].figures[2], 0) << "not reached";
  EXPECT_THAT(fastest_of(sweep_of(cases)[1]), ElementsAre(0, -1, 0));
  cases[0].verdict.proof = Proof::different;
  EXPECT_THAT(fastest_of(sweep_of(cases)[1]), ElementsAre(1, -1, 0));
}

TEST(Sweeps, OfTimesToLossWidenByTheErrorsOfASimulation) {
  auto cases = with_times();
  for (CaseSummary& one : cases) {
    one.step_ms = 10;
    one.simulated_ms = Interval{6, 15};  // so 4 s are 2.4 to 6 s, and 16 s are 9.6 to 24 s
  }
  EXPECT_THAT(fastest_of(sweep_of(cases)[1]), ElementsAre(0, -1, -1)) << "0.6 to 1.5, 1.2 to 3 s";
}

TEST(Sweeps, OfTimesToLossOfOneMeasurementNameNoFastest) {
  auto cases = with_times();
  for (CaseSummary& one : cases) one.plan.cluster.reset();
  EXPECT_THAT(sweep_tables(cases), Not(HasSubstr("Fastest")));
  for (CaseSummary& one : cases) one.runs.repeats = 3;
  EXPECT_THAT(fastest_of(sweep_of(cases)[1]), ElementsAre(0, -1, 1));
}

}  // namespace
}  // namespace ringside::runner
