#include "core/observe/run_record.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/observe/over_ranks.h"

namespace ringside {
namespace {

StepTime step(double total, double compute, double exposed) {
  StepTime time;
  time.total = total;
  time.by_activity[static_cast<std::size_t>(Activity::compute)] = compute;
  time.by_activity[static_cast<std::size_t>(Activity::exposed)] = exposed;
  return time;
}

/// Options of a scheme that core does not know.
struct ServerOptions {
  std::int64_t servers = 2;
};
Fields fields_of(ServerOptions& options) { return {{"servers", &options.servers, ""}}; }

Options defaults(const std::string&) { return ServerOptions{}; }

/// Two workers and a server; the first step is warm-up.
RunPlan plan() {
  RunPlan plan;
  plan.id = "ps-w2-r1";
  plan.listing.label = "ps";
  plan.purpose = Purpose::reference;
  plan.sums = {2, 3, 0.1};
  plan.experiment = "trial";
  plan.scheme = "ps";
  plan.options = ServerOptions{.servers = 1};
  plan.world = 2;
  plan.servers = 1;
  plan.repeat = 1;
  plan.train.steps = 3;
  plan.train.warmup = 1;
  plan.train.global_batch = 8;
  plan.data.path = {"a", "b"};
  plan.ranks = {{.rank = 0, .worker = 0, .ordinal = 0, .environment = {"SHADE=green"}},
                {.rank = 1, .worker = 1, .ordinal = 1},
                {.rank = 2, .server = 0, .device = "cpu"}};
  return plan;
}

std::vector<RankRecord> records() {
  std::vector<RankRecord> records(3);
  for (int r = 0; r < 3; ++r) {
    records[r].rank = r;
    records[r].role = r < 2 ? "worker" : "server";
    records[r].host = "here";
    records[r].minimum_bytes_per_step = 100;
    records[r].bytes_sent_per_step = 10.0 * (r + 1);
  }
  records[0].losses = {3, 2, 1};
  records[1].losses = {0.5, 0.25, 0.125};
  records[0].steps = {step(9, 9, 0), step(0.2, 0.1, 0.05), step(0.2, 0.1, 0.05)};
  records[1].steps = {step(9, 9, 0), step(0.4, 0.3, 0.05), step(0.4, 0.3, 0.05)};
  records[0].parameters = 77;
  records[0].parameter_hashes = {"abc"};
  records[0].evaluations = {{3, 0, {{1, 0.75, 0.5}, {0.25, 0.25, 0.125}}, 0.25}};
  records[1].evaluations = {{3, 0, {{0.25, 0.25, 0.125}, {}}, 0.5}};
  records[0].skipped_steps = 2;
  records[0].tokens_per_sample = 10;
  records[2].serving_optimizer_ms = 10;
  records[2].at_peak[MemoryKind::optimizer] = 1000;
  records[2].rss = 5000;
  records[0].device_memory = DeviceMemory{11, 12, 13};
  records[1].host_memory.emplace().at_peak[MemoryKind::optimizer] = 500;
  return records;
}

TEST(RunRecord, AddsTheLossesOfTheWorkersUp) {
  EXPECT_EQ(make_row(plan(), records()).loss, (std::vector<double>{3.5, 2.25, 1.125}));
}

/// A sum of doubles depends on the order of its terms. make_row() adds losses in the order of the
/// micro-batches, whichever worker computed them.
TEST(RunRecord, AddsTheLossesOfMicroBatchesUpAsSingleDoes) {
  const auto loss_of = [](int world, std::vector<RankRecord> records) {
    RunPlan of = plan();
    of.world = world;
    of.train.accumulation = 4 / world;
    return make_row(of, std::move(records)).loss;
  };
  const double tiny = 1e-16;  // 1 + tiny is 1, but 1 + (tiny + tiny) is not
  std::vector<RankRecord> one(1), two(2);
  one[0].losses = {1, tiny, tiny, tiny, 0.5, 0.25, 0.125, 0.0625};
  two[0].losses = {1, tiny, 0.5, 0.25};
  two[1].losses = {tiny, tiny, 0.125, 0.0625};
  EXPECT_EQ(loss_of(1, one), (std::vector<double>{1, 0.9375}));
  EXPECT_EQ(loss_of(2, two), loss_of(1, one));
}

TEST(RunRecord, NamesWorkersThatEndWithOtherParameters) {
  auto some = records();
  some[0].parameter_blocks = "12345678";
  some[1].parameter_hashes = {"abc"};
  RunRecord row = make_row(plan(), some);
  EXPECT_EQ(row.parameter_hashes, std::vector<std::string>{"abc"});
  EXPECT_EQ(row.at_end.shown_by, 2);
  EXPECT_TRUE(row.at_end.differing.empty());
  EXPECT_EQ(row.at_end.blocks, "12345678");
  some[1].parameter_hashes = {"abd"};
  row = make_row(plan(), some);
  EXPECT_EQ(row.parameter_hashes, std::vector<std::string>{"abc"});
  EXPECT_EQ(row.at_end.differing, std::vector<std::int64_t>{1});
  some[1].first_replica = 1;
  row = make_row(plan(), some);
  EXPECT_EQ(row.parameter_hashes, (std::vector<std::string>{"abc", "abd"})) << "replicas of own";
  EXPECT_TRUE(row.at_end.differing.empty());
  EXPECT_EQ(row.at_end.blocks, "");
}

/// 77 parameters are 77 blocks; the last one is that of neither rank.
TEST(RunRecord, KnowsWhoKeepsABlock) {
  auto some = records();
  some[0].kept = {{0, 30}, {60, 10}};
  some[1].kept = {{30, 30}, {70, 6}};
  const auto keepers = make_row(plan(), some).at_end.keepers;
  ASSERT_EQ(keepers.size(), 77u);
  EXPECT_EQ(std::count(keepers.begin(), keepers.end(), 0), 40);
  EXPECT_EQ(std::count(keepers.begin(), keepers.end(), 1), 36);
  EXPECT_EQ(keepers.back(), -1);
  some[0].parameters = 600;  // blocks of three elements
  some[0].kept = {{0, 301}};
  some[1].kept = {{301, 299}};
  const auto wide = make_row(plan(), some).at_end.keepers;
  ASSERT_EQ(wide.size(), 200u);
  EXPECT_EQ(wide[99], 0);
  EXPECT_EQ(wide[100], -1) << "both have a part";
  EXPECT_EQ(wide[199], 1);
}

/// A pause of all processes is one long step; a scheme that does more in some steps has several.
TEST(RunRecord, StoodStillInOneStepOfManyMedians) {
  const auto still = [](std::vector<double> totals) {
    auto some = records();
    some[1].steps = {step(9, 9, 0)};
    for (const double total : totals) some[1].steps.push_back(step(total, 0.1, 0));
    return stood_still_s(plan(), some);
  };
  EXPECT_DOUBLE_EQ(still({0.1, 0.1, 10.1, 0.1, 0.1}), 10);
  EXPECT_EQ(still({0.1, 0.1, 1.1, 0.1, 0.1}), 0) << "that may be other work";
  EXPECT_EQ(still({0.1, 10.1, 0.1, 0.1, 10.1}), 0);
  EXPECT_EQ(still({0.1, 10.1, 0.1}), 0) << "so few steps do not tell what is usual";
  EXPECT_EQ(still({3, 3, 13, 3, 3}), 0);
  RunPlan cold = plan();
  cold.train.warmup = 0;
  EXPECT_EQ(stood_still_s(cold, records()), 0);
}

TEST(RunRecord, CountsTheStepsOfAWorkerThatWasKilled) {
  auto some = records();
  some[1] = {};
  some[1].rank = 1;
  some[1].role = "lost";
  some[1].lost_after = 1257;
  some[0].steps.assign(3001, step(0.1, 0.1, 0));
  const RunRecord row = make_row(plan(), some);
  EXPECT_EQ(row.worker_steps, (std::vector<std::int64_t>{3001, 1257}));
  EXPECT_NEAR(row.samples_per_s, 4 * (3000 + 1256) / 300.0, 1e-6) << "its samples count";
}

TEST(RunRecord, TakesTheTimeOfTheSlowestWorkerWithoutWarmUp) {
  const RunRecord row = make_row(plan(), records());
  EXPECT_DOUBLE_EQ(row.step_ms.median, 400);
  EXPECT_DOUBLE_EQ(row.samples_per_s, 20);
  EXPECT_DOUBLE_EQ(row.tokens_per_s, 200);
}

TEST(RunRecord, ThroughputCountsALongStepAmongShortOnes) {
  RunPlan averaging = plan();  // averages after every fourth step
  averaging.train.steps = 9;
  auto some = records();
  for (int r = 0; r < 2; ++r) {
    some[r].steps = {step(9, 9, 0)};
    for (int s = 0; s < 8; ++s) some[r].steps.push_back(step(s % 4 == 3 ? 0.7 : 0.1, 0.1, 0));
  }
  const RunRecord row = make_row(averaging, some);
  EXPECT_DOUBLE_EQ(row.step_ms.median, 100);
  EXPECT_DOUBLE_EQ(row.samples_per_s, 8 * 8 / 2.0) << "8 steps in 2 s";
  EXPECT_DOUBLE_EQ(row.tokens_per_s, 320);
}

TEST(RunRecord, ThroughputIsThatOfTheWorkerWithTheLargestSum) {
  auto some = records();
  some[0].steps = {step(9, 9, 0), step(0.1, 0.1, 0), step(0.7, 0.1, 0)};
  some[1].steps = {step(9, 9, 0), step(0.2, 0.1, 0), step(0.2, 0.1, 0)};
  const RunRecord row = make_row(plan(), some);
  EXPECT_DOUBLE_EQ(row.step_ms.median, 200) << "of the worker whose median is largest";
  EXPECT_DOUBLE_EQ(row.samples_per_s, 8 * 2 / 0.8);
}

TEST(RunRecord, SharesOfAStepAddUpToTheMeanStep) {
  auto some = records();
  for (StepTime& step : some[1].steps)
    step.by_activity[static_cast<std::size_t>(Activity::encoding)] = 0.02;
  const auto& time = make_row(plan(), some).time_ms;
  EXPECT_DOUBLE_EQ(time.compute, 200);
  EXPECT_DOUBLE_EQ(time.exposed, 50);
  EXPECT_DOUBLE_EQ(time.encoding, 10);
  EXPECT_NEAR(time.idle, 40, 1e-9);
  EXPECT_NEAR(time.compute + time.exposed + time.optimizer + time.data + time.encoding + time.idle,
              300, 1e-9);
  EXPECT_DOUBLE_EQ(time.serving_optimizer, 10);
}

TEST(RunRecord, HasTheFieldsOfTheContract) {
  const auto json = to_json(make_row(plan(), records()));
  for (const char* field : {"schema",        "experiment",   "run",
                            "label",         "purpose",      "sum_tree",
                            "scheme",        "options",      "device",
                            "cluster",       "world",        "servers",
                            "repeat",        "seed",         "model",
                            "parameters",    "dtypes",       "global_batch",
                            "micro_batch",   "accumulation", "steps",
                            "warmup",        "loss",         "parameter_hashes",
                            "samples_per_s", "tokens_per_s", "step_ms",
                            "time_ms",       "ranks",        "bytes_minimum_per_step",
                            "staleness",     "predicted",    "status",
                            "worker_steps",  "replay",       "error",
                            "figures"})
    EXPECT_TRUE(json.contains(field)) << field;
  EXPECT_EQ(json.begin().key(), "schema");
  EXPECT_EQ(json["dtypes"]["moments"], "fp32");
  EXPECT_TRUE(json["predicted"].is_null());
  EXPECT_EQ(json["promise"], "same run");
  EXPECT_EQ(json["ranks"][2]["role"], "server");
  EXPECT_EQ(json["ranks"][2]["memory"]["at_peak"]["optimizer"], 1000);
  EXPECT_EQ(json["ranks"][2]["memory"]["peak"], 1000);
  EXPECT_TRUE(json["ranks"][2]["memory"]["device"].is_null());
  EXPECT_EQ(json["ranks"][0]["memory"]["device"]["outside"], 12);
  EXPECT_TRUE(json["ranks"][0]["memory"]["host"].is_null());
  EXPECT_EQ(json["ranks"][1]["memory"]["host"]["at_peak"]["optimizer"], 500);
  EXPECT_EQ(json["ranks"][1]["memory"]["host"]["peak"], 500);
}

TEST(RunRecord, HasNoStalenessUnlessRanksReportIt) {
  EXPECT_TRUE(to_json(make_row(plan(), records()))["staleness"].is_null());
  auto stale = records();
  stale[0].staleness.emplace();
  stale[1].staleness.emplace();
  for (int i = 0; i < 90; ++i) stale[0].staleness->add(1, 0.010);
  for (int i = 0; i < 9; ++i) stale[1].staleness->add(3, 0.100);
  stale[1].staleness->add(5, 1);
  stale[1].staleness->dropped = 7;
  const auto received = [](const RankRecord& r) { return read_json<RankRecord>(to_json(r)); };
  std::transform(stale.begin(), stale.end(), stale.begin(), received);
  const auto json = to_json(make_row(plan(), stale));
  EXPECT_EQ(json["staleness"]["p50"], 1);
  EXPECT_EQ(json["staleness"]["p95"], 3);
  EXPECT_EQ(json["staleness"]["max"], 5);
  EXPECT_NEAR(json["staleness"]["ms"]["p50"].get<double>(), 10, 0.1);
  EXPECT_NEAR(json["staleness"]["ms"]["p95"].get<double>(), 100, 1);
  EXPECT_NEAR(json["staleness"]["ms"]["max"].get<double>(), 1000, 10);
  EXPECT_EQ(json["staleness"]["histogram"], (std::vector<int>{0, 90, 0, 9, 0, 1}));
  EXPECT_EQ(json["staleness"]["dropped"], 7);
  EXPECT_EQ(to_json(row_from_json(nlohmann::json::parse(json.dump()), defaults)).dump(),
            json.dump());
}

TEST(RunRecord, MakesUpForTheMicroBatchesOfWorkersThatDidFewerSteps) {
  auto uneven = records();
  uneven[1].losses = {0.5, 0.25};
  uneven[1].steps.pop_back();
  const RunRecord row = make_row(plan(), uneven);
  EXPECT_EQ(row.loss, (std::vector<double>{3.5, 2.25, 2 * 1.0}));
  EXPECT_EQ(row.worker_steps, (std::vector<std::int64_t>{3, 2}));
}

TEST(RunRecord, PutsLossesInTheirPlaces) {
  auto turned = records();
  turned[0].losses = {3, 1, 2};
  turned[0].loss_places = {0, 2, 1};
  EXPECT_EQ(make_row(plan(), turned).loss, make_row(plan(), records()).loss);
}

TEST(RunRecord, HasTheFiguresOfSchemesOverTheWorkersThatReportThem) {
  auto some = records();
  some[0].figures = {{"distance", "relative", 0.25}, {"rounds", "per step", 7}};
  some[1].figures = {{"distance", "relative", 0.75}};
  const auto received = [](const RankRecord& r) { return read_json<RankRecord>(to_json(r)); };
  std::transform(some.begin(), some.end(), some.begin(), received);
  const auto json = to_json(make_row(plan(), some));
  EXPECT_EQ(json["figures"], nlohmann::ordered_json::parse(R"([
      {"name": "distance", "unit": "relative", "mean": 0.5, "max": 0.75},
      {"name": "rounds", "unit": "per step", "mean": 7.0, "max": 7.0}])"));
  EXPECT_EQ(to_json(row_from_json(nlohmann::json::parse(json.dump()), defaults)).dump(),
            json.dump());
  EXPECT_TRUE(to_json(make_row(plan(), records()))["figures"].empty());
}

TEST(RunRecord, KeepsThePromiseOfItsScheme) {
  RunPlan own = plan();
  own.promise = Promise::own_algorithm;
  auto json = nlohmann::json(to_json(make_row(own, records())));
  EXPECT_EQ(json["promise"], "own algorithm");
  EXPECT_EQ(row_from_json(json, defaults).plan.promise, Promise::own_algorithm);
  json["promise"] = "the moon";
  EXPECT_THROW(row_from_json(json, defaults), Error);
}

TEST(RunRecord, IsTheSameAfterARoundTrip) {
  const auto json = to_json(make_row(plan(), records()));
  const RunRecord back = row_from_json(nlohmann::json::parse(json.dump()), defaults);
  EXPECT_EQ(to_json(back).dump(), json.dump());
  EXPECT_EQ(to_json(back.plan), to_json(plan()));
  EXPECT_EQ(back.plan.options, plan().options);
  EXPECT_EQ(back.evaluations.size(), 1u);
  EXPECT_EQ(back.evaluations.at(0).accuracy, 0.75);
  EXPECT_EQ(back.skipped_steps, 2);
}

TEST(RunRecord, PerplexityIsThatOfTheFirstTermAndImagesHaveNone) {
  const auto json = to_json(make_row(plan(), records()));
  EXPECT_DOUBLE_EQ(json["evaluations"][0]["perplexity"].get<double>(), std::exp(1.25));
  auto images = records();
  for (RankRecord& record : images) record.tokens_per_sample = 0;
  EXPECT_TRUE(to_json(make_row(plan(), images))["evaluations"][0]["perplexity"].is_null());
}

TEST(RunRecord, OfAFailedRunKeepsItsPlanAndReason) {
  const auto json = to_json(failed_row(plan(), "rank 1 (worker) was killed by signal 9"));
  EXPECT_EQ(json["status"], "failed");
  EXPECT_EQ(json["ranks"].size(), 3u);
  const RunRecord back = row_from_json(nlohmann::json::parse(json.dump()), defaults);
  EXPECT_EQ(back.error, "rank 1 (worker) was killed by signal 9");
  EXPECT_EQ(to_json(back.plan), to_json(plan()));
}

TEST(RunRecord, ThatIsOlderThanSomeFieldsHasTheirDefaults) {
  nlohmann::json json = to_json(make_row(plan(), records()));
  for (const char* name : {"staleness", "cores", "label"}) json.erase(name);
  json["optimizer"].erase("clip_norm");
  json["ranks"][0].erase("bytes_computed");
  json["ranks"][0]["memory"].erase("rss_of_peers");
  json["of_the_future"] = 1;
  const RunRecord back = row_from_json(json, defaults);
  EXPECT_EQ(back.plan.listing.label, "");
  EXPECT_EQ(back.plan.optimizer.clip_norm, 0);
  EXPECT_FALSE(back.cores || back.staleness);
  EXPECT_FALSE(back.ranks[0].bytes_computed);
  EXPECT_EQ(back.ranks[0].rss_of_peers, 0);
}

TEST(RunRecord, WithoutTheFiguresOfEveryRowIsNone) {
  const nlohmann::json json = to_json(make_row(plan(), records()));
  for (const char* name : {"schema", "run", "scheme", "world", "ranks", "samples_per_s", "step_ms",
                           "time_ms", "loss", "status"}) {
    nlohmann::json lacking = json;
    lacking.erase(name);
    EXPECT_THROW(row_from_json(lacking, defaults), nlohmann::json::exception) << name;
  }
}

TEST(RunRecord, OfAnotherSchemaIsRefused) {
  nlohmann::json json = to_json(failed_row(plan(), "x"));
  json["schema"] = 99;
  EXPECT_THROW(row_from_json(json, defaults), Error);
}

TEST(Quantiles, AreObservedValues) {
  const Quantiles ten = quantiles({10, 9, 8, 7, 6, 5, 4, 3, 2, 1});
  EXPECT_EQ(ten.median, 5);
  EXPECT_EQ(ten.p10, 1);
  EXPECT_EQ(ten.p90, 9);
  EXPECT_EQ(quantiles({4}).p90, 4);
  EXPECT_EQ(quantiles({}).median, 0);
}

}  // namespace
}  // namespace ringside
