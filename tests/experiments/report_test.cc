#include "experiments/runner/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/compress/compressor_info.h"
#include "experiments/runner/registry/registry.h"
#include "peer/schemes/ddp.h"
#include "peer/schemes/diloco.h"
#include "tests/experiments/made_up_rows.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const CaseSummary& find(const std::vector<CaseSummary>& cases, const std::string& label,
                        int world) {
  for (const CaseSummary& one : cases)
    if (one.label() == label && one.plan.world == world) return one;
  throw std::runtime_error("no case " + label);
}

TEST(Report, FiguresAreMediansWithHalfTheRange) {
  const auto cases = summarise({made_up_row("single", 1, 0, 90, "a", {2, 1}),
                                made_up_row("single", 1, 1, 110, "a", {2, 1}),
                                made_up_row("single", 1, 2, 100, "a", {2, 1})});
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].runs.repeats, 3);
  EXPECT_DOUBLE_EQ(cases[0].samples_per_s, 100);
  EXPECT_DOUBLE_EQ(cases[0].spread, 0.1);
  EXPECT_DOUBLE_EQ(cases[0].speed_up.median, 1);
  EXPECT_DOUBLE_EQ(cases[0].step_ms, 20);
  EXPECT_DOUBLE_EQ(cases[0].losses.final_loss, 1);
  EXPECT_EQ(cases[0].verdict.proof, Proof::reference);
}

TEST(Report, SpeedUpAndEfficiencyAreAgainstSingle) {
  const auto cases = summarise(
      {made_up_row("ddp", 2, 0, 180, "a", {2, 1}), made_up_row("single", 1, 0, 100, "a", {2, 1})});
  EXPECT_EQ(cases[0].label(), "single");  // stands first, whenever it ran
  const CaseSummary& ddp = find(cases, "ddp", 2);
  EXPECT_EQ(ddp.verdict.proof, Proof::identical_to_single);
  EXPECT_DOUBLE_EQ(ddp.speed_up.median, 1.8);
  EXPECT_DOUBLE_EQ(ddp.efficiency.value_or(0), 0.9);
  EXPECT_DOUBLE_EQ(ddp.bytes.sent, 2e6);
  EXPECT_EQ(ddp.memory.roles.at(0).rank, 0);
  EXPECT_EQ(ddp.memory.peak(), 2000000);
}

TEST(Report, ASpeedUpBesideAnotherGlobalBatchIsPerSampleAndSaysSo) {
  auto config = made_up_experiment();
  config.train.global_batch = 4;
  config.train.micro_batch = 2;
  const RunRecord single = made_up_row("single", 1, 0, 100, "a", {2, 1});
  RunRecord ddp = made_up_row("ddp", 2, 0, 190, "b", {2, 1}), reference = ddp;
  set_plan(ddp, plan_training(config, "ddp", 2));
  config.compare.schemes = {"ddp"};
  set_plan(reference, plan_comparison(config).front());
  ASSERT_EQ(reference.plan.purpose, Purpose::reference);
  const auto cases = summarise({single, reference, ddp});
  const CaseSummary& larger = find(cases, "ddp", 2);
  EXPECT_EQ(larger.verdict.proof, Proof::identical_to_single);
  EXPECT_DOUBLE_EQ(larger.speed_up.median, 1.9);  // samples/s of both, whatever their steps hold
  EXPECT_TRUE(larger.other_batch);
  const std::string remark = "another global batch than the `single` that they are compared with";
  EXPECT_THAT(summary_text(cases), HasSubstr(remark));
  EXPECT_THAT(summary_text(summarise({single, made_up_row("ddp", 2, 0, 190, "a", {2, 1})})),
              Not(HasSubstr(remark)));
}

TEST(Report, PredictionsStandBesideWhatWasMeasured) {
  RunRecord single = made_up_row("single", 1, 0, 100, "a", {2, 1});
  single.predicted = Prediction{.step_ms = 22, .memory_peak = 1900000};
  const auto cases = summarise({single, made_up_row("ddp", 2, 0, 180, "a", {2, 1})});
  EXPECT_NEAR(cases[0].predicted->step_ms_error, 0.1, 1e-12);
  EXPECT_NEAR(cases[0].predicted->memory_peak_error, -0.05, 1e-12);
  const std::string text = summary_text(cases);
  EXPECT_THAT(text, HasSubstr("22.0 (+10%)"));
  EXPECT_THAT(text, HasSubstr("1.9 (-5.0%)"));
  const auto json = summary_json("trial", cases)["cases"];
  EXPECT_NEAR(json[0]["predicted"]["step_ms_error"].get<double>(), 0.1, 1e-12);
  EXPECT_TRUE(json[1]["predicted"].is_null());
  // Without predictions the table has no column for them.
  EXPECT_THAT(summary_text(summarise({made_up_row("single", 1, 0, 100, "a", {2, 1})})),
              Not(HasSubstr("predicted")));
}

TEST(Report, SimulatedRowsSaySoAndHaveASpeedUpWithoutLosses) {
  std::vector<RunRecord> rows = {made_up_row("single", 1, 0, 100, "", {}),
                                 made_up_row("ddp", 2, 0, 180, "", {})};
  for (RunRecord& row : rows) {
    row.plan.device.kind = "sim";
    row.plan.cluster = testing::small_cluster(2);
    row.plan.cluster->assumed = {{"nic", {"latency_us"}}, {"device gpu", {"launch_us", "cores"}}};
  }
  const auto cases = summarise(rows);
  EXPECT_EQ(cases[1].verdict.proof, Proof::not_shown);
  EXPECT_DOUBLE_EQ(cases[1].speed_up.median, 1.8);
  EXPECT_THAT(summary_text(cases),
              HasSubstr("SIMULATED on cluster small: virtual time; nothing here was measured.\n"
                        "Assumed of cluster small, neither published nor measured: nic "
                        "(latency_us); device gpu (launch_us, cores).\n\n"));
  EXPECT_EQ(summary_json("trial", cases)["cases"][0]["cluster"], "small");
  EXPECT_EQ(summary_json("trial", cases)["cases"][0]["assumed"]["nic"][0], "latency_us");
}

TEST(Report, AnAlgorithmOfItsOwnHasNoSpeedUpInThroughputWhereverItRan) {
  RunRecord computed = made_up_row("ddp", 2, 0, 180, "b", {2, 1.5});
  computed.plan.promise = Promise::own_algorithm;
  auto cases = summarise({made_up_row("single", 1, 0, 100, "a", {2, 1}), computed});
  EXPECT_EQ(cases[1].verdict.proof, Proof::not_shown);
  EXPECT_EQ(cases[1].verdict.cause, "its definition has not finished");
  EXPECT_LT(cases[1].speed_up.median, 0);
  EXPECT_THAT(summary_text(cases), HasSubstr("180.0* ± 0%"));
  EXPECT_THAT(summary_text(cases), HasSubstr("*: a scheme with an algorithm of its own"));
  EXPECT_EQ(summary_json("trial", cases)["cases"][1]["promise"], "own algorithm");
  // It is not called the same run even if its hash and losses happen to be equal.
  computed.parameter_hashes = {"a"};
  computed.loss = {2, 1};
  EXPECT_LT(summarise({made_up_row("single", 1, 0, 100, "a", {2, 1}), computed})[1].speed_up.median,
            0);

  std::vector<RunRecord> rows = {made_up_row("single", 1, 0, 100, "", {}),
                                 made_up_row("ddp", 2, 0, 180, "", {}),
                                 made_up_row("fsdp", 2, 0, 180, "", {})};
  rows[1].plan.promise = Promise::own_algorithm;
  for (RunRecord& row : rows) {
    row.plan.device.kind = "sim";
    row.plan.cluster = testing::small_cluster(2);
  }
  cases = summarise(rows);
  EXPECT_EQ(cases[1].verdict.proof, Proof::not_shown);
  EXPECT_LT(cases[1].speed_up.median, 0);
  EXPECT_DOUBLE_EQ(cases[2].speed_up.median, 1.8);
  EXPECT_THAT(summary_text(cases), HasSubstr("not shown: simulated without values"));
}

TEST(Report, BytesThatWereComputedAreMarked) {
  RunRecord counted = made_up_row("ps", 2, 0, 180, "a", {2, 1});
  RunRecord computed = made_up_row("ddp", 2, 0, 180, "a", {2, 1});
  for (RankRecord& rank : computed.ranks) rank.bytes_computed = true;
  const std::string text = summary_text(summarise({counted, computed}));
  EXPECT_THAT(text, HasSubstr(" ~2.00 |"));
  EXPECT_THAT(text, HasSubstr("~: computed from sizes, not counted"));
  EXPECT_EQ(summary_json("trial", summarise({computed}))["cases"][0]["bytes_computed"], true);
  EXPECT_THAT(row_text(computed), HasSubstr("by the busiest rank (computed, not counted)"));
  EXPECT_THAT(summary_text(summarise({counted})), Not(HasSubstr("~")));
  EXPECT_THAT(row_text(counted), Not(HasSubstr("computed")));
  const RunRecord again =
      row_from_json(nlohmann::json::parse(to_json(computed).dump()), default_options);
  EXPECT_TRUE(again.ranks[0].bytes_computed);
}

TEST(Report, ASimulatedRowIsReadBackWithItsClusterAndPrediction) {
  RunRecord row = made_up_row("ddp", 2, 0, 180, "", {});
  row.plan.device.kind = "sim";
  row.plan.cluster = testing::small_cluster(2);
  row.predicted = Prediction{.step_ms = 22, .memory_peak = 1900000};
  const RunRecord again =
      row_from_json(nlohmann::json::parse(to_json(row).dump()), default_options);
  ASSERT_TRUE(again.plan.cluster.has_value());
  EXPECT_EQ(again.plan.cluster, row.plan.cluster);
  EXPECT_EQ(again.predicted->memory_peak, 1900000);
  EXPECT_EQ(to_json(again.plan), to_json(row.plan));
}

TEST(Report, ShowsWhatRanksHoldInTheMemoryOfTheirHosts) {
  RunRecord row = made_up_row("ddp", 2, 0, 180, "a", {2, 1});
  EXPECT_THAT(summary_text(summarise({row})), Not(HasSubstr("its host")));
  row.ranks[0].host_memory.emplace().at_peak[MemoryKind::optimizer] = 7'000'000;
  const auto cases = summarise({row});
  const std::string text = summary_text(cases);
  EXPECT_THAT(text, ContainsRegex("its host \\| +0 \\| 7.00 \\| +0.00 \\| +0.00 \\| +7.00 \\|"));
  EXPECT_THAT(text, HasSubstr("its host: what the same rank holds"));
  const auto json = summary_json("trial", cases)["cases"][0];
  EXPECT_EQ(json["memory"]["roles"][0]["host"]["at_peak"]["optimizer"], 7'000'000);
}

TEST(Report, RunsThatShareADeviceAreMarkedAndHaveNoSpeedUp) {
  RunRecord shared = made_up_row("ddp", 2, 0, 180, "b", {2, 1.00005});
  for (RankPlan& rank : shared.plan.ranks) rank.ordinal = 0;
  shared.plan.device.kind = "cuda";
  shared.ranks[0].device_memory = DeviceMemory{3'000'000, 500'000'000, 80'000'000'000};
  RunRecord single = made_up_row("single", 1, 0, 100, "a", {2, 1});
  single.plan.device.kind = "cuda";
  const auto cases = summarise({single, shared});
  EXPECT_TRUE(shares_device(cases[1].plan));
  EXPECT_EQ(cases[1].verdict.proof,
            Proof::to_rounding);  // a GPU's sums have orders of their own
  EXPECT_LT(cases[1].speed_up.median, 0);
  const std::string text = summary_text(cases);
  EXPECT_THAT(text, HasSubstr("to rounding (5e-05); shared GPU: not a performance figure"));
  EXPECT_THAT(text, HasSubstr("reserved"));
  EXPECT_THAT(text, HasSubstr("3.00 | 500"));
  const auto json = summary_json("trial", cases)["cases"][1];
  EXPECT_EQ(json["shared_device"], true);
  EXPECT_EQ(json["memory"]["roles"][0]["device"]["outside"], 500'000'000);
}

TEST(Report, ADifferentRunGetsNoSpeedUp) {
  const auto cases = summarise({made_up_row("single", 1, 0, 100, "a", {2, 1}),
                                made_up_row("ddp", 2, 0, 180, "b", {2, 1.1})});
  const CaseSummary& ddp = find(cases, "ddp", 2);
  EXPECT_EQ(ddp.verdict.proof, Proof::different);
  EXPECT_LT(ddp.speed_up.median, 0);
  EXPECT_FALSE(ddp.efficiency);
  const std::string text = summary_text(cases);
  EXPECT_THAT(text, HasSubstr("DIFFERENT (1e-01)"));
  EXPECT_THAT(text, Not(HasSubstr("1.80")));
  EXPECT_TRUE(summary_json("trial", cases)["cases"][1]["speed_up"].is_null());
}

TEST(Report, OneDifferentRepeatIsEnough) {
  const auto cases = summarise({made_up_row("single", 1, 0, 100, "a", {2, 1}),
                                made_up_row("ddp", 2, 0, 180, "a", {2, 1}),
                                made_up_row("ddp", 2, 1, 180, "b", {2, 1.1})});
  EXPECT_EQ(find(cases, "ddp", 2).verdict.proof, Proof::different);
}

TEST(Report, ASingleThatDoesNotRepeatItselfIsDifferent) {
  const auto cases = summarise({made_up_row("single", 1, 0, 100, "a", {2, 1}),
                                made_up_row("single", 1, 1, 100, "b", {2, 1.1})});
  EXPECT_EQ(cases[0].verdict.proof, Proof::different);
}

/// A difference in one of the three alone is enough: equal hashes do not imply equal losses, and
/// equal losses do not imply equal weights.
TEST(Report, BitIdenticalRowsHaveEqualParametersLossesAndEvaluations) {
  RunRecord single = made_up_row("single", 1, 0, 100, "a", {2, 1});
  single.evaluations = {{2, 1.5, 1.5, 0.75, 1.0, 1.0}};
  const auto proof_of = [&](const std::function<void(RunRecord&)>& change) {
    RunRecord ddp = made_up_row("ddp", 2, 0, 180, "a", {2, 1});
    ddp.evaluations = {{2, 1.5, 1.5, 0.75, 2.0, 2.0}};  // the seconds may differ
    change(ddp);
    // A resumed comparison reads its earlier rows from a file. That must not change any bit.
    const RunRecord again =
        row_from_json(nlohmann::json::parse(to_json(ddp).dump()), default_options);
    EXPECT_EQ(again.loss, ddp.loss);
    const Proof fresh = find(summarise({single, ddp}), "ddp", 2).verdict.proof;
    EXPECT_EQ(find(summarise({single, again}), "ddp", 2).verdict.proof, fresh);
    return fresh;
  };
  const double next_to_1 = std::nextafter(1.0, 2.0), next_to_1_5 = std::nextafter(1.5, 2.0);
  EXPECT_EQ(proof_of([](RunRecord&) {}), Proof::identical_to_single);
  EXPECT_EQ(proof_of([](RunRecord& row) { row.parameter_hashes = {"b"}; }), Proof::different);
  EXPECT_EQ(proof_of([&](RunRecord& row) { row.loss[1] = next_to_1; }), Proof::different);
  EXPECT_EQ(proof_of([](RunRecord& row) { row.loss[1] = 1.1; }), Proof::different);
  EXPECT_EQ(proof_of([&](RunRecord& row) { row.evaluations[0].loss = next_to_1_5; }),
            Proof::different);
  EXPECT_EQ(proof_of([](RunRecord& row) { row.evaluations[0].loss = 1.6; }), Proof::different);
  EXPECT_EQ(proof_of([&](RunRecord& row) { row.evaluations[0].first_term = next_to_1_5; }),
            Proof::different);
  EXPECT_EQ(proof_of([](RunRecord& row) { row.evaluations[0].first_term = 1.6; }),
            Proof::different);
  EXPECT_EQ(proof_of([](RunRecord& row) { row.evaluations[0].accuracy = 0.755; }),
            Proof::different);
  EXPECT_EQ(proof_of([](RunRecord& row) { row.evaluations.clear(); }), Proof::different);
  // Kernels of two threads may round otherwise, but no rounding leaves all losses as they are.
  const auto threaded = [&](const std::function<void(RunRecord&)>& change) {
    return proof_of([&](RunRecord& row) {
      row.plan.device.threads = 2;
      change(row);
    });
  };
  EXPECT_EQ(threaded([&](RunRecord& row) { row.loss[1] = next_to_1; }), Proof::to_rounding);
  EXPECT_EQ(threaded([](RunRecord& row) { row.parameter_hashes = {"b"}; }), Proof::different);
  // A library between ranks adds up in an unknown order, so bits may differ.
  const auto rounded = [&](const std::function<void(RunRecord&)>& change) {
    return proof_of([&](RunRecord& row) {
      row.plan.sums.unknown_order = true;
      change(row);
    });
  };
  EXPECT_EQ(rounded([](RunRecord& row) { row.parameter_hashes = {"b"}; }), Proof::to_rounding);
  EXPECT_EQ(rounded([&](RunRecord& row) { row.loss[1] = next_to_1; }), Proof::to_rounding);
  EXPECT_EQ(rounded([](RunRecord& row) { row.loss[1] = 1.1; }), Proof::different);
  EXPECT_EQ(rounded([&](RunRecord& row) { row.evaluations[0].loss = next_to_1_5; }),
            Proof::to_rounding);
  EXPECT_EQ(rounded([](RunRecord& row) { row.evaluations[0].loss = 1.6; }), Proof::different);
  EXPECT_EQ(rounded([](RunRecord& row) { row.evaluations[0].accuracy = 0.755; }),
            Proof::to_rounding);
  EXPECT_EQ(rounded([](RunRecord& row) { row.evaluations[0].accuracy = 0.8; }), Proof::different);
}

TEST(Report, SumsOf16BitsMayDifferByMoreWhicheverTheScheme) {
  const auto rounding_of = [](const Options& options, const std::string& device) {
    RunPlan plan;
    plan.options = options;
    plan.device.kind = device;
    return largest_rounding(plan);
  };
  for (const CompressorInfo& info : compressors()) {
    const bool in_16_bits = info.name == "fp16" || info.name == "bf16";
    CompressionOptions compression;
    compression.compressor = info.name;
    for (const Options& options : {Options(peer::DdpOptions{.compression = compression}),
                                   Options(peer::DilocoOptions{.compression = compression})}) {
      EXPECT_EQ(rounding_of(options, "cpu"), in_16_bits ? 1e-2 : 1e-5) << info.name;
      EXPECT_EQ(rounding_of(options, "cuda"), in_16_bits ? 1e-2 : 1e-4) << info.name;
    }
  }
  EXPECT_EQ(rounding_of(peer::DdpOptions{}, "cuda"), 1e-4);
}

/// Each block has one digit here; a shard keeps blocks 0 and 1, or 2 and 3.
TEST(Report, DifferentParametersNameTheRankThatKeepsThem) {
  const auto proof_of = [](const std::string& blocks) {
    RunRecord single = made_up_row("single", 1, 0, 100, "a", {2, 1});
    single.at_end.blocks = "abcd";
    RunRecord fsdp = made_up_row("fsdp", 2, 0, 180, "b", {2, 1});
    fsdp.at_end = {.shown_by = 2, .blocks = blocks, .keepers = {0, -1, 1, 1}};
    return summary_text(summarise({single, fsdp}));
  };
  EXPECT_THAT(proof_of("abXd"), HasSubstr("DIFFERENT: the parameters of rank 1 at the end differ"));
  EXPECT_THAT(proof_of("XXcd"), HasSubstr("DIFFERENT: the parameters of rank 0 at the end differ"));
  EXPECT_THAT(proof_of("aXcd"), HasSubstr("DIFFERENT: the parameters at the end differ"))
      << "both ranks keep a part of the block";
  EXPECT_THAT(proof_of("XbXd"), HasSubstr("DIFFERENT: the parameters at the end differ"));
}

TEST(Report, WorkersThatEndApartAreNamedAndHaveNoSpeedUp) {
  RunRecord ddp = made_up_row("ddp", 2, 0, 180, "a", {2, 1});
  ddp.at_end = {.shown_by = 4, .differing = {1, 3}};
  const auto cases = summarise({made_up_row("single", 1, 0, 100, "a", {2, 1}), ddp});
  EXPECT_LT(find(cases, "ddp", 2).speed_up.median, 0);
  EXPECT_THAT(summary_text(cases),
              HasSubstr("DIFFERENT: the parameters of ranks 1 and 3 at the end differ from those "
                        "of rank 0"));
}

TEST(Report, EqualLossesAreEqualToRounding) {
  RunRecord library = made_up_row("ddp", 2, 0, 180, "b", {2, 1 + 3e-7});
  library.plan.sums.unknown_order = true;
  const auto cases = summarise({made_up_row("single", 1, 0, 100, "a", {2, 1}), library});
  const CaseSummary& ddp = find(cases, "ddp", 2);
  EXPECT_EQ(ddp.verdict.proof, Proof::to_rounding);
  EXPECT_DOUBLE_EQ(ddp.speed_up.median, 1.8);
  EXPECT_THAT(summary_text(cases), HasSubstr("to rounding (3e-07)"));
}

TEST(Report, TheReferenceIsSingleOverTheSameMicroBatches) {
  auto config = made_up_experiment();
  config.train.global_batch = 4;
  const auto row = [&](const std::string& scheme, int world, const std::string& hash) {
    RunRecord made = made_up_row(scheme, world, 0, 100, hash, {2, 1});
    set_plan(made, plan_training(config, scheme, world));
    return made;
  };
  RunRecord plain = row("single", 1, "plain"), ddp = row("ddp", 2, "grouped");
  auto runs = plan_comparison(config);
  RunRecord grouped = plain;
  set_plan(grouped, runs[0]);
  ASSERT_EQ(grouped.plan.listing.label, "single x2");
  grouped.parameter_hashes = {"grouped"};
  auto cases = summarise({grouped, plain, ddp});
  EXPECT_EQ(cases[0].label(), "single");
  EXPECT_EQ(cases[1].label(), "single x2");
  EXPECT_EQ(find(cases, "ddp", 2).verdict.proof, Proof::identical_to_single);
  // Without that reference, only the losses are compared, with those of any other `single`.
  cases = summarise({plain, ddp});
  EXPECT_EQ(find(cases, "ddp", 2).verdict.proof, Proof::to_rounding);
}

TEST(Report, WithoutAReferenceThereIsNoSpeedUp) {
  const auto cases = summarise({failed_row(made_up_row("single", 1, 0, 1, "", {}).plan, "gone"),
                                made_up_row("ddp", 2, 0, 180, "b", {2, 1})});
  const CaseSummary& ddp = find(cases, "ddp", 2);
  EXPECT_EQ(ddp.verdict.proof, Proof::not_shown);
  EXPECT_LT(ddp.speed_up.median, 0);
}

TEST(Report, AReferenceThatRanOnceIsNoMeasureOfSpeed) {
  auto config = made_up_experiment();
  config.compare.schemes = {"ddp"};
  RunRecord reference = made_up_row("single", 1, 0, 50, "a", {2, 1});
  set_plan(reference, plan_comparison(config).front());
  ASSERT_EQ(reference.plan.purpose, Purpose::reference);
  const RunRecord ddp = made_up_row("ddp", 2, 0, 180, "a", {2, 1});
  const auto cases = summarise({reference, ddp});
  for (const CaseSummary& one : cases) EXPECT_LT(one.speed_up.median, 0) << one.label();
  EXPECT_EQ(find(cases, "ddp", 2).verdict.proof, Proof::identical_to_single);
  EXPECT_THAT(summary_text(cases), HasSubstr("`single` was not compared"));
  const RunRecord asked = made_up_row("single", 1, 0, 100, "a", {2, 1});
  EXPECT_THAT(summary_text(summarise({asked, ddp})), Not(HasSubstr("was not compared")));
}

TEST(Report, AReferenceOfBatchNormGroupsIsNoRepeatOfSingle) {
  auto config = made_up_experiment();
  config.model.kind = "resnet";
  config.data.kind = "synthetic-images";
  config.model.batch_norm_group = 2;
  config.compare.schemes = {"single", "ddp"};
  config.compare.worlds = {1, 2};
  config.compare.repeats = 1;
  std::vector<RunRecord> rows;
  for (const RunPlan& run : plan_comparison(config)) {
    RunRecord row = made_up_row(run.scheme, run.world, 0, 100, "a", {2, 1});
    set_plan(row, run);
    if (run.purpose == Purpose::reference) row.samples_per_s = 50;
    rows.push_back(row);
  }
  const auto cases = summarise(rows);
  ASSERT_EQ(cases.size(), 4u);
  const CaseSummary& single = find(cases, "single", 1);
  EXPECT_EQ(single.label(), "single");
  EXPECT_EQ(single.runs.repeats, 1);
  EXPECT_DOUBLE_EQ(single.speed_up.median, 1);
  EXPECT_THAT(summary_text(cases), Not(HasSubstr("was not compared")));
}

/// Rows of `single` and `ddp`, a pair for each repeat: a disturbance of the machine hits both runs
/// of a repeat.
std::vector<RunRecord> pairs(const std::vector<std::pair<double, double>>& rates) {
  std::vector<RunRecord> rows;
  for (const auto& [single, ddp] : rates) {
    const int repeat = static_cast<int>(rows.size()) / 2;
    rows.push_back(made_up_row("single", 1, repeat, single, "a", {2, 1}));
    rows.push_back(made_up_row("ddp", 2, repeat, ddp, "a", {2, 1}));
  }
  return rows;
}

TEST(Report, WithoutFinishedRepeatsThereIsNoProbability) {
  const RunRecord failed = failed_row(made_up_row("ddp", 2, 0, 1, "", {}).plan, "gone");
  for (const std::string& text :
       {summary_text(summarise({failed})),
        summary_text(summarise({failed, made_up_row("single", 1, 0, 100, "a", {2, 1})}))}) {
    EXPECT_THAT(text, Not(HasSubstr("probability")));
    EXPECT_THAT(text, HasSubstr("in the same repeat; median. eff.: "));
  }
}

TEST(Report, SpeedUpIsTheMedianOfRatiosWithinARepeat) {
  // The medians are 100 and 180; the machine slows down from repeat to repeat.
  const auto cases = summarise(pairs({{140, 250}, {110, 200}, {100, 180}, {95, 175}, {50, 88}}));
  const CaseSummary& ddp = find(cases, "ddp", 2);
  EXPECT_DOUBLE_EQ(ddp.speed_up.median, 180.0 / 100);
  ASSERT_TRUE(ddp.speed_up.interval.has_value());
  EXPECT_DOUBLE_EQ(ddp.speed_up.interval->low, 88.0 / 50);
  EXPECT_DOUBLE_EQ(ddp.speed_up.interval->high, 175.0 / 95);
  EXPECT_DOUBLE_EQ(ddp.efficiency.value_or(0), 0.9);
  const std::string text = summary_text(cases);
  EXPECT_THAT(text, HasSubstr("1.80 [1.76, 1.84]"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "the range over 5 repeats, which contains the true median with a probability of 94%"));
  EXPECT_THAT(text, HasSubstr(" 1.00 |"));  // of `single`: it has no interval
  const auto json = summary_json("trial", cases)["cases"][1];
  EXPECT_DOUBLE_EQ(json["speed_up_interval"][0].get<double>(), 1.76);
  EXPECT_DOUBLE_EQ(json["efficiency_interval"][0].get<double>(), 0.88);
}

TEST(Report, ARepeatWithoutItsNeighbourHasNoRatio) {
  auto rows = pairs({{100, 180}, {100, 300}});
  rows[2] = failed_row(rows[2].plan, "gone");
  const auto cases = summarise(rows);
  const CaseSummary& ddp = find(cases, "ddp", 2);
  EXPECT_DOUBLE_EQ(ddp.speed_up.median, 1.8);
  EXPECT_FALSE(ddp.speed_up.interval.has_value());
}

TEST(Report, OneRepeatHasNoIntervalAndSaysSo) {
  const auto cases = summarise(pairs({{100, 180}}));
  EXPECT_THAT(summary_text(cases), HasSubstr("One repeat: speed-ups have no interval"));
  EXPECT_TRUE(summary_json("trial", cases)["cases"][1]["speed_up_interval"].is_null());
  EXPECT_THAT(summary_text(summarise(pairs({{100, 180}, {100, 181}}))),
              Not(HasSubstr("One repeat")));
}

TEST(Report, CasesWhoseIntervalsOverlapAreNotRanked) {
  std::vector<RunRecord> rows;
  const auto add = [&](const std::string& scheme, int world, double first, double second) {
    rows.push_back(made_up_row(scheme, world, 0, first, "a", {2, 1}));
    rows.push_back(made_up_row(scheme, world, 1, second, "a", {2, 1}));
  };
  add("single", 1, 100, 100);
  add("ddp", 1, 97, 106);  // its interval contains that of single
  add("dp", 2, 150, 170);
  add("ps", 2, 165, 185);  // overlaps with dp and ddp, which do not overlap with each other
  add("ddp", 2, 175, 190);
  add("fsdp", 2, 195, 210);  // faster than all
  const auto found = ties(summarise(rows));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].world, 1);
  EXPECT_THAT(found[0].labels, ::testing::UnorderedElementsAre("single", "ddp"));
  EXPECT_THAT(found[1].labels, ::testing::UnorderedElementsAre("dp", "ps"));
  EXPECT_THAT(found[2].labels, ::testing::UnorderedElementsAre("ps", "ddp"));
  EXPECT_THAT(
      summary_text(summarise(rows)),
      HasSubstr("Not ranked, because their speed-ups have overlapping intervals: single, ddp "
                "(world 1); dp, ps (world 2); ps, ddp (world 2)."));
  EXPECT_EQ(summary_json("trial", summarise(rows))["not_ranked"].size(), 3u);
}

TEST(Report, SimulatedCasesWithOverlappingIntervalsAreNotRanked) {
  std::vector<RunRecord> rows;
  const auto add = [&](const std::string& scheme, int world, double samples_per_s, double error) {
    RunRecord& row = rows.emplace_back(made_up_row(scheme, world, 0, samples_per_s, "a", {2, 1}));
    row.plan.cluster.emplace().name = "made up";
    row.bounds = {row.step_ms.median / (1 + error), row.step_ms.median * (1 + error)};
  };
  add("single", 1, 100, 0);
  add("ddp", 2, 180, 0.05);
  add("fsdp", 2, 190, 0.05);
  add("ps", 2, 150, 0.05);
  rows.push_back(made_up_row("dp", 2, 0, 185, "a", {2, 1}));
  rows.back().plan.cluster = rows[0].plan.cluster;
  const auto cases = summarise(rows);
  const auto found = ties(cases);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].labels, ::testing::UnorderedElementsAre("ddp", "fsdp"))
      << "dp has no interval";
  const std::string text = summary_text(cases);
  EXPECT_THAT(text, HasSubstr("overlapping intervals: ddp, fsdp (world 2).\n"));
  EXPECT_THAT(text, HasSubstr("[10.6, 11.7]")) << "of 2 / 180 s";
  EXPECT_THAT(text, HasSubstr("interval: where the simulated step lies"));
  const auto json = summary_json("trial", cases);
  EXPECT_DOUBLE_EQ(json["cases"][0]["simulated_interval_ms"][1].get<double>(), 20);
}

TEST(Report, AttemptsThatWereDisturbedDoNotCount) {
  auto rows = pairs({{100, 100}, {100, 180}});
  rows[1].load = MachineLoad{.seconds = 10, .cores = 2, .others_s = 9};
  RunRecord again = made_up_row("ddp", 2, 0, 180, "a", {2, 1});
  again.attempt = 1;
  rows.push_back(again);
  auto cases = summarise(rows);
  const CaseSummary& quiet = find(cases, "ddp", 2);
  EXPECT_DOUBLE_EQ(quiet.speed_up.median, 1.8);
  EXPECT_EQ(quiet.runs.repeats, 2);
  EXPECT_EQ(quiet.runs.superseded, 1);
  EXPECT_EQ(quiet.runs.disturbed, 0);
  EXPECT_THAT(summary_text(cases), HasSubstr("Attempts that do not count: 1."));
  // If no attempt was quiet, the table says what disturbed the best attempt.
  rows.pop_back();
  cases = summarise(rows);
  EXPECT_THAT(
      summary_text(cases),
      ::testing::AllOf(HasSubstr("bit-identical to single; 1 of 2 repeats disturbed"),
                       HasSubstr("Disturbed: ddp at world 2: others used 0.9 of 2 cores.")));
  EXPECT_EQ(summary_json("trial", cases)["cases"][1]["disturbed"], 1);
}

/// A disturbance may change the speed of a run, but not its results.
TEST(Report, AnAttemptThatDoesNotCountMustBeTheSameRunToo) {
  auto rows = pairs({{100, 180}});
  rows[1].load = MachineLoad{.seconds = 10, .cores = 2, .others_s = 9};
  rows[1].parameter_hashes = {"b"};
  rows[1].loss = {2, 1.5};
  rows.push_back(made_up_row("ddp", 2, 0, 180, "a", {2, 1}));
  rows.back().attempt = 1;
  EXPECT_EQ(find(summarise(rows), "ddp", 2).verdict.proof, Proof::different);
}

/// A run of `single` with this many threads.
RunRecord on_all_cores(int threads, int repeat, double samples_per_s) {
  RunRecord row = made_up_row("single", 1, repeat, samples_per_s, "c", {2, 1 + 1e-7});
  row.plan.purpose = Purpose::all_cores;
  row.plan.device.threads = threads;
  row.plan.listing.label = fmt::format("single ({} threads)", threads);
  row.plan.id = fmt::format("single-t{}-r{}", threads, repeat);
  return row;
}

TEST(Report, SingleOnAllCoresIsASecondBaseline) {
  auto rows = pairs({{100, 180}, {100, 180}});
  for (int repeat = 0; repeat < 2; ++repeat) {
    rows.insert(rows.begin(), on_all_cores(2, repeat, 150));
    rows.front().cores = 1.9;
  }
  const auto cases = summarise(rows);
  const CaseSummary& ddp = find(cases, "ddp", 2);
  EXPECT_EQ(ddp.verdict.proof, Proof::identical_to_single) << "its reference has its threads";
  EXPECT_DOUBLE_EQ(ddp.speed_up.median, 1.8);
  EXPECT_DOUBLE_EQ(ddp.of_all_cores.median, 1.2);
  const CaseSummary& all = find(cases, "single (2 threads)", 1);
  EXPECT_EQ(all.verdict.proof, Proof::to_rounding);
  EXPECT_DOUBLE_EQ(all.speed_up.median, 1.5);
  EXPECT_FALSE(all.efficiency) << "threads are no workers";
  EXPECT_DOUBLE_EQ(all.of_all_cores.median, 1);
  const std::string text = summary_text(cases);
  EXPECT_THAT(text, HasSubstr("| vs all cores |"));
  EXPECT_THAT(text, HasSubstr("| cores |"));
  EXPECT_THAT(text, HasSubstr("|   1.9 |"));
  EXPECT_THAT(summary_text(summarise(pairs({{100, 180}}))), Not(HasSubstr("vs all cores")));

  // If a comparison was resumed with a larger world, it has two cases of `single` on all cores. The
  // one with the most threads counts, wherever it stands.
  for (int repeat = 0; repeat < 2; ++repeat)
    rows.insert(rows.begin(), on_all_cores(4, repeat, 300));
  EXPECT_DOUBLE_EQ(find(summarise(rows), "ddp", 2).of_all_cores.median, 0.6);
}

TEST(Report, MemoryIsThatOfTheBusiestRankOfEachRole) {
  std::vector<RunRecord> rows;
  for (int repeat = 0; repeat < 2; ++repeat) {
    RunRecord ps = made_up_row("ps", 2, repeat, 180, "a", {2, 1});
    ASSERT_EQ(ps.plan.ranks.size(), 4u);  // two workers, two servers
    for (int r = 0; r < 4; ++r) {
      RankRecord& rank = ps.ranks[static_cast<std::size_t>(r)];
      rank.at_peak = {};
      rank.at_peak[MemoryKind::parameter] = (r < 2 ? 40 : 17 + 2 * repeat) * 1'000'000 + r;
      rank.rss = 60'000'000;
    }
    rows.push_back(ps);
  }
  const auto cases = summarise(rows);
  const MemorySummary& memory = cases.at(0).memory;
  ASSERT_EQ(memory.roles.size(), 2u);
  EXPECT_EQ(memory.roles[0].role, "worker");
  EXPECT_EQ(memory.roles[0].rank, 1);
  EXPECT_EQ(memory.roles[1].role, "server");
  EXPECT_EQ(memory.roles[1].ranks, 2);
  EXPECT_EQ(memory.roles[1].peak.low, 17'000'003);
  EXPECT_EQ(memory.roles[1].peak.high, 19'000'003);
  EXPECT_EQ(memory.job.low, 114'000'006);
  EXPECT_EQ(memory.job.high, 118'000'006);
  EXPECT_EQ(memory.peak(), 40'000'001);
  const std::string text = summary_text(cases);
  EXPECT_THAT(text, HasSubstr("busiest of 2 servers"));
  EXPECT_THAT(text, HasSubstr("17.00-19.00"));
  EXPECT_THAT(text, HasSubstr("114-118"));
  const auto json = summary_json("trial", cases)["cases"][0]["memory"];
  EXPECT_EQ(json["roles"][1]["role"], "server");
  EXPECT_EQ(json["all_ranks"]["high"], 118'000'006);
}

TEST(Report, CountsProcessesAndWhatIsLeftOfAStep) {
  RunRecord ps = made_up_row("ps", 2, 0, 180, "a", {2, 1});
  ps.time_ms.data = 1;
  ps.time_ms.idle = 2.5;
  ps.time_ms.encoding = 0.25;
  const auto json = summary_json("trial", summarise({ps}))["cases"][0];
  EXPECT_EQ(json["world"], 2);
  EXPECT_EQ(json["processes"], ps.plan.ranks.size());
  EXPECT_GT(ps.plan.ranks.size(), 2u);  // dedicated servers
  EXPECT_EQ(json["time_ms"]["encoding"], 0.25);
  EXPECT_EQ(json["time_ms"]["other"], 3.75);
  EXPECT_THAT(summary_text(summarise({ps})), HasSubstr("   3.8 |"));
  EXPECT_THAT(row_text(ps), HasSubstr("encoding 0.2, idle 2.5 ms"));
}

TEST(Report, HasTheFiguresOfSchemesInATableOfTheirOwn) {
  std::vector<RunRecord> rows;
  for (int repeat = 0; repeat < 3; ++repeat) {
    rows.push_back(made_up_row("local_sgd", 2, repeat, 180, "a", {2, 1}));
    const double mean = repeat == 0 ? 0.25 : 0.125;
    rows.back().figures = {{"consensus distance", "relative", mean, 2 * mean}};
  }
  rows.push_back(made_up_row("single", 1, 0, 100, "a", {2, 1}));
  const auto cases = summarise(rows);
  const auto json = summary_json("trial", cases);
  EXPECT_TRUE(json["cases"][0]["figures"].empty()) << "single";
  EXPECT_EQ(json["cases"][1]["figures"],
            nlohmann::ordered_json::parse(R"([{"name": "consensus distance", "unit": "relative",
                                               "mean": 0.125, "max": 0.5}])"));
  EXPECT_THAT(
      summary_text(cases),
      HasSubstr("| figures of schemes | world |             figure |     unit |  mean | max "
                "|"));
  EXPECT_THAT(
      summary_text(cases),
      HasSubstr("| local_sgd          |     2 | consensus distance | relative | 0.125 | 0.5 "
                "|"));
  EXPECT_THAT(row_text(rows[0]),
              HasSubstr("\nfigure         consensus distance 0.25 relative (mean "
                        "over workers; max 0.5)\n"));
  EXPECT_THAT(summary_text(summarise({rows.back()})), Not(HasSubstr("figures of schemes")));
}

TEST(Report, FailedRunsStayWithTheirReason) {
  const RunRecord good = made_up_row("ddp", 2, 0, 180, "a", {2, 1});
  RunRecord bad = failed_row(made_up_row("ddp", 2, 1, 180, "a", {2, 1}).plan,
                             "rank 1 | was killed\nby signal 9");
  const auto single = made_up_row("single", 1, 0, 100, "a", {2, 1});
  auto cases = summarise({single, bad});
  EXPECT_THAT(summary_text(cases), HasSubstr("FAILED: rank 1 / was killed by signal 9"));
  cases = summarise({single, bad, good});
  EXPECT_EQ(find(cases, "ddp", 2).runs.failed, 1);
  EXPECT_DOUBLE_EQ(find(cases, "ddp", 2).speed_up.median, 1.8);
  EXPECT_THAT(summary_text(cases),
              HasSubstr("bit-identical to single; 1 of 2 repeats FAILED: rank 1"));
}

TEST(Report, TheTableIsAlignedAndFitsAWideTerminal) {
  std::vector<RunRecord> rows = {made_up_row("single", 1, 0, 100, "a", {2, 1}),
                                 made_up_row("dp", 2, 0, 12345.6, "b", {2, 1.5}),
                                 made_up_row("fsdp", 2, 0, 180, "a", {2, 1})};
  rows[1].ranks[0].at_peak[MemoryKind::activation] = 123456000000;
  const std::string text = summary_text(summarise(rows));
  std::istringstream lines(text);
  std::string header, rule, line;
  std::getline(lines, header);
  std::getline(lines, rule);
  EXPECT_EQ(header.size(), rule.size());
  EXPECT_LE(header.size(), 175u);
  EXPECT_THAT(header, HasSubstr("| scheme "));
  EXPECT_THAT(header, HasSubstr("| proof"));
  for (int i = 0; i < 3; ++i) {
    std::getline(lines, line);
    EXPECT_EQ(line.size(), rule.size() + 1) << line;  // the two bytes of one ±
  }
}

TEST(Report, SummaryHasTheSameFiguresAsNumbers) {
  const auto json = summary_json("trial", summarise({made_up_row("single", 1, 0, 100, "a", {2, 1}),
                                                     made_up_row("ddp", 2, 0, 150, "a", {2, 1})}));
  EXPECT_EQ(json["experiment"], "trial");
  const auto& ddp = json["cases"][1];
  EXPECT_EQ(ddp["scheme"], "ddp");
  EXPECT_EQ(ddp["speed_up"], 1.5);
  EXPECT_EQ(ddp["efficiency"], 0.75);
  EXPECT_EQ(ddp["proof"], "bit-identical to single");
  EXPECT_EQ(ddp["memory"]["roles"][0]["at_peak"]["parameter"], 2000000);
}

TEST(LargestDifference, IsRelativeAndNeverMissesAnything) {
  EXPECT_EQ(largest_difference({1, 2}, {1, 2}), 0);
  EXPECT_DOUBLE_EQ(largest_difference({1, 3}, {1, 2}), 0.5);
  EXPECT_TRUE(std::isinf(largest_difference({1}, {1, 2})));
  EXPECT_TRUE(std::isinf(largest_difference({std::nan("")}, {1})));
  EXPECT_TRUE(std::isinf(largest_difference({1}, {0})));
}

}  // namespace
}  // namespace ringside::runner
