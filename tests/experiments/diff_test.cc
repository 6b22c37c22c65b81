// The output of `ringside diff` for two folders.
#include "experiments/runner/report/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/made_up_rows.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using ::testing::AllOf;
using testing::complaint;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int repeats = 9;

/// Nine repeats of `single`, and of `ddp` and `ps` at world 2. `ddp` and `drift` are factors: of
/// the speed of ddp, and of that of every run of a repeat.
SavedResults results(double ddp = 1, double drift = 1, int count = repeats) {
  SavedResults out;
  out.folder = "before";
  out.name = "trial";
  for (int repeat = 0; repeat < count; ++repeat) {
    const double pace = drift * (1 + 0.002 * ((repeat * 7) % 5));
    const double noise = 1 + 0.0007 * ((repeat * 5) % 9);
    out.rows.push_back(made_up_row("single", 1, repeat, 100 * pace, "bits", {3, 2}));
    out.rows.push_back(made_up_row("ddp", 2, repeat, 190 * pace * noise * ddp, "bits", {3, 2}));
    out.rows.push_back(made_up_row("ps", 2, repeat, 180 * pace / noise, "bits", {3, 2}));
  }
  return out;
}

SavedResults after(SavedResults of) {
  of.folder = "after";
  return of;
}

const SpeedDiff& speed_of(const Diff& diff, const std::string& label) {
  for (const SpeedDiff& one : diff.speeds)
    if (one.label == label) return one;
  throw std::out_of_range(label);
}

void for_each_row(SavedResults& of, const std::string& scheme, const auto& change) {
  for (RunRecord& row : of.rows)
    if (row.plan.scheme == scheme) change(row);
}

TEST(Diff, OfTheSameResultsFindsNothing) {
  const Diff diff = make_diff(results(), after(results()), {});
  EXPECT_FALSE(regressed(diff));
  ASSERT_EQ(diff.speeds.size(), 3u);
  for (const SpeedDiff& one : diff.speeds) {
    EXPECT_EQ(one.outcome, SpeedChange::none) << one.label;
    EXPECT_EQ(one.change, 0);
  }
  EXPECT_THAT(diff.values, IsEmpty());
  EXPECT_THAT(
      diff_text(diff),
      AllOf(HasSubstr("The environment is the same."), HasSubstr("The configuration is the same."),
            HasSubstr("No regression: of the 3 rows, none is shown to be slower by 3%")));
}

TEST(Diff, FindsASlowerSchemeAndNamesItFirst) {
  const Diff diff = make_diff(results(), after(results(0.95)), {});
  EXPECT_TRUE(regressed(diff));
  const SpeedDiff& worst = diff.speeds.at(0);
  EXPECT_EQ(worst.label, "ddp");
  EXPECT_EQ(worst.outcome, SpeedChange::slower);
  EXPECT_EQ(worst.relative_to, "single");
  EXPECT_NEAR(worst.change, -0.05, 0.002);
  ASSERT_TRUE(worst.low && worst.high);
  EXPECT_LT(*worst.low, -0.049);
  EXPECT_GT(*worst.high, -0.051);
  EXPECT_NEAR(worst.p, 2.0 / 48620, 1e-9);  // of C(18, 9) ways one is as far apart on either side
  EXPECT_NEAR(worst.corrected_p, 3 * worst.p, 1e-12);
  EXPECT_EQ(speed_of(diff, "ps").outcome, SpeedChange::none);
  EXPECT_THAT(diff_text(diff), AllOf(HasSubstr("9+9"), HasSubstr("SLOWER"),
                                     HasSubstr("REGRESSION: ddp at world 2 is 5.0% slower.")));
}

TEST(Diff, CallsAnImprovementFasterAndAChangeBelowTheThresholdByItsName) {
  const Diff faster = make_diff(results(), after(results(1.1)), {});
  EXPECT_FALSE(regressed(faster));
  EXPECT_EQ(speed_of(faster, "ddp").outcome, SpeedChange::faster);
  const Diff small = make_diff(results(), after(results(0.98)), {});
  EXPECT_FALSE(regressed(small));
  EXPECT_EQ(speed_of(small, "ddp").outcome, SpeedChange::below);
  EXPECT_TRUE(regressed(make_diff(results(), after(results(0.98)), {.threshold = 0.01})));
}

TEST(Diff, OfASlowerMachineShowsAtSingleAlone) {
  const Diff diff = make_diff(results(), after(results(1, 0.9)), {});
  EXPECT_EQ(speed_of(diff, "single").outcome, SpeedChange::slower);
  EXPECT_THAT(speed_of(diff, "single").relative_to, IsEmpty());
  EXPECT_EQ(speed_of(diff, "ddp").outcome, SpeedChange::none);
  EXPECT_EQ(speed_of(diff, "ps").outcome, SpeedChange::none);
}

TEST(Diff, SaysThatTooFewRepeatsShowNothing) {
  const Diff diff = make_diff(results(1, 1, 3), after(results(0.5, 1, 3)), {});
  EXPECT_FALSE(regressed(diff));
  EXPECT_EQ(speed_of(diff, "ddp").outcome, SpeedChange::too_few);
  EXPECT_THAT(diff_text(diff),
              AllOf(HasSubstr("Nothing is known about speed"),
                    HasSubstr("for which 5 on each side are the fewest (compare.repeats)")));
}

TEST(Diff, ComparesSimulatedRowsExactly) {
  SavedResults a = results(1, 1, 1), b = after(results(0.96, 1, 1));
  for (SavedResults* one : {&a, &b})
    for (RunRecord& row : one->rows) {
      row.plan.device.kind = "sim";
      row.plan.cluster.emplace();
    }
  const Diff diff = make_diff(a, b, {});
  EXPECT_EQ(speed_of(diff, "ddp").outcome, SpeedChange::slower);
  EXPECT_EQ(speed_of(diff, "ps").outcome, SpeedChange::none);
  EXPECT_TRUE(regressed(diff));
}

TEST(Diff, NamesEveryChangeOfMemoryBytesAndLosses) {
  SavedResults b = after(results());
  for_each_row(b, "ddp", [](RunRecord& row) {
    row.ranks[0].at_peak[MemoryKind::parameter] += 1;
    row.ranks[1].bytes_sent_per_step *= 1.04;
  });
  for (RunRecord& row : b.rows) row.loss.back() += 1e-7;  // of all, or the proof would be lost too
  const Diff diff = make_diff(results(), b, {});
  ASSERT_EQ(diff.values.size(), 5u);
  EXPECT_EQ(diff.values[0].what, "bytes sent");  // the only one beyond the threshold
  EXPECT_TRUE(diff.values[0].regression);
  EXPECT_EQ(diff.values[1].what, "training loss");  // of single
  EXPECT_EQ(diff.values[1].b, "2.0000001");
  EXPECT_EQ(diff.values[2].what, "peak memory");
  EXPECT_EQ(diff.values[2].a, "2.000000 MB");
  EXPECT_EQ(diff.values[2].b, "2.000001 MB");
  for (std::size_t i = 1; i < 5; ++i) EXPECT_FALSE(diff.values[i].regression);
  EXPECT_THAT(diff_text(diff), HasSubstr("REGRESSION: bytes sent of ddp at world 2"));
}

TEST(Diff, TakesValuesThatOverlapAsEqual) {
  SavedResults a = results(), b = after(results());
  a.rows[1].ranks[0].at_peak[MemoryKind::parameter] += 500000;
  b.rows[4].ranks[0].at_peak[MemoryKind::parameter] += 100000;
  EXPECT_THAT(make_diff(a, b, {}).values, IsEmpty());
}

TEST(Diff, FindsALostProofAndRunsThatFail) {
  SavedResults b = after(results());
  for_each_row(b, "ddp", [](RunRecord& row) {
    row.parameter_hashes = {"other bits"};
    row.loss = {3, 2.5};
  });
  for_each_row(b, "ps", [](RunRecord& row) {
    if (row.plan.repeat == 4) row = failed_row(row.plan, "no memory");
  });
  const Diff diff = make_diff(results(), b, {});
  const std::string text = diff_text(diff);
  EXPECT_TRUE(regressed(diff));
  EXPECT_THAT(text, HasSubstr("finished repeats of ps at world 2: 9 of 9 -> 8 of 9"));
  EXPECT_THAT(text, HasSubstr("proof of ddp at world 2: bit-identical to single -> DIFFERENT"));
}

TEST(Diff, SaysFirstWhatDiffersInEnvironmentAndConfiguration) {
  SavedResults a = results(), b = after(results());
  a.environment = R"({"time": "1", "cpu": "EPYC", "cores": 2, "libraries": ["a.so.1", "b.so"]})";
  b.environment = R"({"time": "2", "cpu": "EPYC", "cores": 4, "libraries": ["a.so.2", "b.so"]})";
  for (RunRecord& row : b.rows) row.plan.train.micro_batch = 7;
  for_each_row(b, "ps", [](RunRecord& row) { row.plan.device.threads = 2; });
  const std::string text = diff_text(make_diff(a, b, {}));
  EXPECT_THAT(text, AllOf(HasSubstr("The environment differs:\n  cores: 2 -> 4\n"
                                    "  libraries: [\"a.so.1\"] -> [\"a.so.2\"]\n"),
                          HasSubstr("The configuration differs:\n"),
                          HasSubstr("  device.threads: 1 -> 2 (ps at world 2)\n"),
                          HasSubstr("  train.micro_batch: 1 -> 7\n"), Not(HasSubstr("time:"))));
  EXPECT_LT(text.find("cores: 2"), text.find("| row"));
}

TEST(Diff, NamesOptionsOfSchemesAsFilesDo) {
  SavedResults b = after(results());
  for_each_row(b, "ps", [](RunRecord& row) { row.plan.scheme = "ps2"; });
  const auto differences = configuration_differences(results(), b);
  std::vector<std::string> names;
  for (const Difference& one : differences) names.push_back(one.what);
  EXPECT_THAT(names, ::testing::Contains("scheme.ps.servers"));
}

TEST(Diff, ListsRowsOfOneFolderAlone) {
  SavedResults b = after(results());
  std::erase_if(b.rows, [](const RunRecord& row) { return row.plan.scheme == "ps"; });
  const Diff diff = make_diff(results(), b, {});
  EXPECT_THAT(diff.only_a, ElementsAre("ps at world 2"));
  EXPECT_THAT(diff.only_b, IsEmpty());
  EXPECT_THAT(diff_text(diff), HasSubstr("Only in A: ps at world 2."));
  b.rows.clear();
  b.complaints = {"rows.jsonl: 9 rows of schema 3"};
  EXPECT_THAT(complaint([&] { make_diff(results(), b, {}); }),
              AllOf(HasSubstr("no row of before (rows: 3) stands in after (rows: 0) too"),
                    HasSubstr("9 rows of schema 3")));
}

TEST(Diff, LeavesOutReferencesAndCountsOneAttemptOfARun) {
  SavedResults a = results();
  RunRecord again = a.rows[1];
  again.attempt = 1;
  again.samples_per_s /= 2;
  a.rows.push_back(again);
  RunRecord reference = a.rows[0];
  reference.plan.purpose = Purpose::reference;
  reference.plan.id = "single-reference";
  a.rows.push_back(reference);
  const Diff diff = make_diff(a, after(results()), {});
  EXPECT_EQ(diff.speeds.size(), 3u);
  EXPECT_EQ(speed_of(diff, "ddp").a.size(), 9u);
  EXPECT_EQ(speed_of(diff, "ddp").outcome, SpeedChange::none);
}

}  // namespace
}  // namespace ringside::runner
