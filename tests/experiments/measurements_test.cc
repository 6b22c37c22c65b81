// Shares in proportion to the speeds of real devices.
#include "experiments/runner/plan/measurements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/plan/same_run.h"
#include "core/scheme/single.h"
#include "experiments/runner/config/cases.h"
#include "experiments/runner/results/results.h"
#include "experiments/runner/run/measure_speeds.h"
#include "tests/experiments/made_up_rows.h"
#include "tests/support/complaint.h"
#include "tests/support/measured_speeds.h"
#include "tests/support/temporary_folder.h"

namespace ringside::runner {
namespace {

using ::testing::AllOf;
using testing::complaint;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::made_up_speeds;
using ::testing::Pointwise;
using ::testing::SizeIs;

ExperimentConfig by_speed(std::int64_t batch = 48) {
  ExperimentConfig config = made_up_experiment();
  config.train.global_batch = batch;
  config.train.micro_batch = 0;
  config.train.shares = Shares::speed;
  return config;
}

RunPlan waiting(int world, std::int64_t batch = 48) {
  return plan_training(by_speed(batch), "ddp", world);
}

std::vector<double> speeds(const std::vector<double>& seconds, double spread = 0.01) {
  const auto world = static_cast<int>(seconds.size());
  return speeds_of(made_up_speeds(waiting(world, 12 * world), seconds, spread));
}

TEST(Speeds, AreSamplesOfTheMedianStepASecond) {
  EXPECT_THAT(speeds({0.1, 0.3}), Pointwise(DoubleNear(1e-9), {120.0, 40.0}));
  MeasuredSpeeds held_up = made_up_speeds(waiting(2, 24), {0.1, 0.2});
  held_up.workers[0].seconds[5] = 7;  // one step of twelve
  EXPECT_THAT(speeds_of(held_up), Pointwise(DoubleNear(1e-9), {120.0, 60.0}));
}

TEST(Speeds, AreEqualWhereStepsOfOneWorkerDifferAsMuch) {
  const auto alike = speeds({0.1, 0.104}, 0.05);
  EXPECT_EQ(alike[0], alike[1]);
  EXPECT_THAT(alike, Each(DoubleNear(12 / 0.102, 1e-9)));
  EXPECT_THAT(speeds({0.1, 0.104}, 0.01), Pointwise(DoubleNear(1e-9), {120.0, 12 / 0.104}));
}

TEST(Speeds, FallIntoGroups) {
  const auto two_kinds = speeds({0.31, 0.1, 0.3, 0.101}, 0.04);
  EXPECT_EQ(two_kinds[1], two_kinds[3]);
  EXPECT_EQ(two_kinds[0], two_kinds[2]);
  EXPECT_NEAR(two_kinds[1] / two_kinds[0], 0.305 / 0.1005, 1e-9);
  // Each is like its neighbour, but the last is not like the first.
  const auto steps = speeds({0.1, 0.107, 0.114, 0.121}, 0.05);
  EXPECT_EQ(steps[0], steps[1]);
  EXPECT_GT(steps[1], 1.05 * steps[2]);
  EXPECT_EQ(steps[2], steps[3]);
}

TEST(Speeds, AreToldWithWhatTheyCountAs) {
  EXPECT_EQ(text_of(made_up_speeds(waiting(2, 24), {0.1, 0.3})),
            "world 2, 12 samples a worker: 120.0, 40.0 samples/s");
  EXPECT_EQ(text_of(made_up_speeds(waiting(2, 24), {0.1, 0.101}, 0.05)),
            "world 2, 12 samples a worker: 120.0, 118.8 samples/s; single steps of one worker "
            "differ as much, so they count as equally fast");
  EXPECT_THAT(text_of(made_up_speeds(waiting(3, 36), {0.1, 0.101, 0.3}, 0.05)),
              HasSubstr("so they count as 119.4, 119.4, 40.0 samples/s"));
}

TEST(RunsWithSharesBySpeed, WaitForOneMeasurementOfEachSetting) {
  ExperimentConfig config = by_speed();
  config.compare.schemes = {"single", "ddp", "fsdp", "ps"};
  config.compare.worlds = {1, 2, 3};
  config.compare.repeats = 2;
  config.compare.seeds = {1, 2};
  Experiment experiment(config);
  experiment.cases = {case_of_text("ddp: optimizer.lr=0.5, train.steps=9"),
                      case_of_text("ddp: device.threads=2, worlds=[2]"),
                      case_of_text("ddp: train.shares=[3, 1], worlds=[2]")};
  std::vector<std::pair<int, std::int64_t>> workers_and_threads;
  for (const RunPlan& plan : missing_measurements(plan_comparison(experiment)))
    workers_and_threads.emplace_back(plan.world, plan.device.threads);
  EXPECT_THAT(workers_and_threads,
              ::testing::UnorderedElementsAre(std::pair(2, 1), std::pair(3, 1), std::pair(2, 2)));
  config.train.shares = Shares::equal;
  EXPECT_THAT(missing_measurements(plan_comparison(config)), IsEmpty());
}

TEST(RunsWithSharesBySpeed, AreMeasuredAsTheyWillRunWithEqualShares) {
  ExperimentConfig config = by_speed(50);
  config.train.micro_batch = 9;
  config.train.precision = Precision::fp16;
  config.train.recompute = Recompute::full;
  config.device.threads = 2;
  config.train.timeout_s = 7;
  const RunPlan run = plan_training(config, "ps", 3);
  const RunPlan measuring = plan_measurement(run);
  EXPECT_TRUE(waits_for_speeds(run));
  EXPECT_FALSE(waits_for_speeds(measuring));
  EXPECT_EQ(speed_setting(measuring), speed_setting(run));
  EXPECT_THAT(measuring.train.weights, IsEmpty());
  EXPECT_EQ(measuring.train.micro_batch, 8);  // 2 micro-batches of 25 samples, over 3 workers
  EXPECT_EQ(measuring.train.accumulation, 1);
  EXPECT_EQ(measuring.train.timeout_s, 7);
  EXPECT_THAT(measuring.ranks, SizeIs(3));
}

TEST(RunsWithSharesBySpeed, AreMeasuredWhereTheirWorkersWillLive) {
  RunPlan run = waiting(2), definition = waiting(2);
  run.homes = {{"a", "10.0.0.1", 0, ""}, {"b", "10.0.0.2", 1, "x"}};
  run.ranks[1].ordinal = 3;
  const RunPlan measuring = plan_measurement(run);
  EXPECT_EQ(measuring.homes, run.homes);
  EXPECT_EQ(measuring.ranks[1].ordinal, 3);
  EXPECT_FALSE(measuring.ranks[1].environment.empty());
  // The definition of a run waits for the same speeds, with one rank.
  definition.world = 1;
  definition.train.weights = {1, 1};
  definition.homes = {run.homes.front()};
  definition.ranks.resize(1);
  run.train.weights = {1, 1};
  EXPECT_EQ(speed_setting(definition), speed_setting(run));
  for (const auto& waiting_runs : {std::vector{definition, run}, std::vector{run, definition}}) {
    const auto measured = missing_measurements(waiting_runs);
    ASSERT_THAT(measured, SizeIs(1));
    EXPECT_EQ(measured[0].homes, run.homes);
  }
}

TEST(RunsWithSharesBySpeed, OfOneWorldHaveTheSameShares) {
  ExperimentConfig config = by_speed();
  config.compare.schemes = {"ddp", "fsdp", "zero1", "dp", "ps"};
  config.compare.worlds = {2};
  config.compare.repeats = 2;
  const auto waiting_runs = plan_comparison(config);
  ASSERT_THAT(missing_measurements(waiting_runs), SizeIs(1));
  const auto runs = plan_comparison(config, 0, {made_up_speeds(waiting(2), {0.1, 0.3})});
  ASSERT_EQ(runs.size(), waiting_runs.size());
  EXPECT_THAT(missing_measurements(runs), IsEmpty());
  for (const RunPlan& run : runs) {
    EXPECT_EQ(run.train.shares, Shares::given) << run.id;
    EXPECT_THAT(run.train.weights, ElementsAre(36, 12)) << run.id;  // of references too
    EXPECT_THAT(run.sums.samples, ElementsAre(36, 12)) << run.id;
  }
  config.scheme_options["single"] = SingleOptions{.replicas = 2};
  const auto single = plan_training(config, "single", 1, {made_up_speeds(waiting(2), {0.1, 0.3})});
  EXPECT_THAT(single.train.weights, ElementsAre(36, 12));
  config.compare.schemes = {"single", "ddp"};
  config.compare.worlds = {2};
  const auto with_all_cores = plan_comparison(config, 2, {made_up_speeds(waiting(2), {0.1, 0.3})});
  EXPECT_THAT(missing_measurements(with_all_cores), IsEmpty());
  EXPECT_THAT(with_all_cores, ::testing::Contains(::testing::Field("purpose", &RunPlan::purpose,
                                                                   Purpose::all_cores)));
  for (const RunPlan& run : with_all_cores)
    EXPECT_THAT(run.train.weights, ElementsAre(36, 12)) << run.id;
}

TEST(RunsWithSharesBySpeed, AreThoseWithEqualSharesIfDevicesAreEqual) {
  const auto speeds = made_up_speeds(waiting(2), {0.1, 0.101}, 0.05);
  ExperimentConfig equal = by_speed();
  equal.train.shares = Shares::equal;
  EXPECT_EQ(plan_training(by_speed(), "ddp", 2, {speeds}), plan_training(equal, "ddp", 2));
  EXPECT_FALSE(waits_for_speeds(plan_training(by_speed(), "ddp", 1))) << "one worker has all";
}

TEST(RunsWithSharesBySpeed, StayBesideThoseOfAnotherCaseThatTurnOutToBeTheSame) {
  Experiment experiment(by_speed());
  experiment.common.compare.schemes.clear();
  experiment.common.compare.worlds = {2};
  experiment.common.compare.repeats = 1;
  const auto labels = [&](const std::vector<double>& seconds) {
    std::vector<std::string> out;
    for (const RunPlan& run :
         plan_comparison(experiment, 0, {made_up_speeds(waiting(2), seconds, 0.05)}))
      if (run.purpose == Purpose::asked) out.push_back(run.listing.label);
    return out;
  };
  experiment.cases = {case_of_text("ddp: train.shares=equal, label=the same"),
                      case_of_text("ddp: train.shares=speed, label=to each his own")};
  for (int order = 0; order < 2; ++order) {
    EXPECT_THAT(labels({0.1, 0.3}), ::testing::UnorderedElementsAre("the same", "to each his own"));
    EXPECT_THAT(labels({0.1, 0.1}), ::testing::UnorderedElementsAre("the same", "to each his own"));
    std::swap(experiment.cases[0], experiment.cases[1]);
  }
  experiment.cases[0] = case_of_text("ddp: train.shares=speed, label=by speed");
  experiment.cases[1] = case_of_text("ddp: train.shares=speed, label=to each his own");
  EXPECT_THAT(complaint([&] { plan_comparison(experiment); }),
              HasSubstr("the case labelled 'by speed' has the same runs"));
}

TEST(RunsWithSharesBySpeed, KeepToTheLimitOfMicroBatches) {
  ExperimentConfig config = by_speed();
  config.train.micro_batch = 24;
  const RunPlan run = plan_training(config, "ddp", 2);
  const auto plan = plan_training(config, "ddp", 2, {made_up_speeds(run, {0.1, 0.3})});
  EXPECT_EQ(plan.train.accumulation, 2);
  EXPECT_THAT(plan.train.weights, ElementsAre(18, 6));
}

TEST(RunsWithSharesBySpeed, HaveReferencesWithAsManyMicroBatches) {
  ExperimentConfig config = by_speed(36);
  config.train.micro_batch =
      4;  // 5 micro-batches of 18 samples would do, but 36 is no multiple of 5
  config.compare.schemes = {"ddp"};
  config.compare.worlds = {2};
  config.compare.repeats = 1;
  const RunPlan run = plan_training(config, "ddp", 2);
  for (const double slow : {0.1, 0.2}) {
    const auto runs = plan_comparison(config, 0, {made_up_speeds(run, {0.1, slow})});
    ASSERT_THAT(runs, SizeIs(2));
    EXPECT_TRUE(must_equal(runs[1], runs[0]));
    EXPECT_EQ(runs[1].train.accumulation, 6);
    EXPECT_EQ(runs[0].train.accumulation, 2 * runs[1].train.accumulation);
  }
}

TEST(RunsWithSharesBySpeed, AreRefusedBeforeAnythingIsMeasured) {
  for (const char* scheme : {"local_sgd", "independent"})
    EXPECT_THAT(complaint([&] { plan_training(by_speed(), scheme, 2); }),
                AllOf(HasSubstr("replicas of their own"), HasSubstr("leave it at 'equal'")));
  EXPECT_THAT(complaint([&] { plan_training(by_speed(2), "ddp", 3); }),
              HasSubstr("train.shares = 'speed': train.global_batch = 2 cannot be divided"));
  ExperimentConfig joined = by_speed();
  norm_in_groups(joined, 2);
  EXPECT_THAT(complaint([&] { plan_training(joined, "ddp", 2); }),
              AllOf(HasSubstr("model.batch_norm_group = 2"), HasSubstr("train.shares = 'speed'")));
}

class Measuring : public ::testing::Test {
 protected:
  /// The row of the measuring run: worker w computes for seconds[w] a step, and waits for the
  /// slowest. Other processes use `others` of the machine's two cores.
  static RunRecord row(const RunPlan& plan, const std::vector<double>& seconds, double others = 0) {
    RunRecord out;
    out.plan = plan;
    out.load = MachineLoad{.seconds = 10, .cores = 2, .others_s = 10 * others};
    for (const double one : seconds) {
      StepTime step{.total = 1};
      step.by_activity[static_cast<std::size_t>(Activity::compute)] = one;
      step.by_activity[static_cast<std::size_t>(Activity::exposed)] = 1 - one;
      RankRecord& rank = out.ranks.emplace_back();
      rank.steps.assign(static_cast<std::size_t>(plan.train.steps), step);
      rank.steps.front().by_activity[static_cast<std::size_t>(Activity::compute)] = 9;  // cold
    }
    return out;
  }

  /// Measures; attempt i gives outcomes[i].
  std::optional<SpeedMeasurement> measure(std::vector<RunOutcome> outcomes) {
    made_ = 0;
    return measure_speeds(plan_,
                          {[&](const RunPlan& plan, const std::function<void(const Step&)>&) {
                             EXPECT_EQ(plan, plan_);
                             return outcomes.at(static_cast<std::size_t>(made_++));
                           },
                           [] { return false; }, 3});
  }

  RunPlan plan_ = plan_measurement(waiting(2));
  int made_ = 0;
};

TEST_F(Measuring, TakesTheComputeOfMeasuredSteps) {
  const auto measured = measure({{row(plan_, {0.1, 0.3})}});
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->disturbance, "");
  EXPECT_EQ(measured->speeds.setting, speed_setting(waiting(2)));
  const auto steps = static_cast<std::size_t>(plan_.train.steps - plan_.train.warmup);
  ASSERT_THAT(measured->speeds.workers, SizeIs(2));
  EXPECT_EQ(measured->speeds.workers[0].seconds, std::vector<double>(steps, 0.1));
  EXPECT_EQ(measured->speeds.workers[1].seconds, std::vector<double>(steps, 0.3));
  EXPECT_EQ(made_, 1);
}

TEST_F(Measuring, IsRepeatedWhileOtherWorkDisturbs) {
  const auto quiet = measure({{row(plan_, {0.3, 0.1}, 0.9)}, {row(plan_, {0.1, 0.3})}});
  EXPECT_EQ(made_, 2);
  EXPECT_EQ(quiet->speeds.workers[0].seconds[0], 0.1);
  const auto quietest = measure({{row(plan_, {0.3, 0.1}, 0.9)},
                                 {row(plan_, {0.1, 0.3}, 0.7)},
                                 {row(plan_, {0.2, 0.2}, 0.8)}});
  EXPECT_EQ(made_, 3);
  EXPECT_EQ(quietest->speeds.workers[0].seconds[0], 0.1);
  EXPECT_EQ(quietest->disturbance, "others used 0.7 of 2 cores");
}

TEST_F(Measuring, ThatFailsSaysWhatToDo) {
  EXPECT_THAT(complaint([&] { measure({{failed_row(plan_, "rank 1 is late")}}); }),
              AllOf(HasSubstr("train.shares = 'speed'"), HasSubstr("rank 1 is late"),
                    HasSubstr("train.shares = [3, 1]")));
  EXPECT_FALSE(measure({{{}, true}})) << "interrupted";
  EXPECT_THAT(complaint([&] {
                measure({{row(plan_, {0.1, 0})}});
              }),
              HasSubstr("worker 1 have no measurable times"));
}

TEST(SpeedsInAFolder, AreReadAsTheyWereWritten) {
  testing::TemporaryFolder there;
  ResultsFolder folder(there.path() / "results");
  EXPECT_THAT(folder.read_speeds(), IsEmpty());
  const RunPlan run = waiting(2);
  const std::vector<MeasuredSpeeds> speeds = {made_up_speeds(run, {0.1, 1.0 / 3})};
  nlohmann::json plan = plan_json({run}, {}, speeds);
  folder.write("plan.json", plan.dump());
  const auto again = folder.read_speeds();
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again[0].setting, speed_setting(run));
  for (std::size_t w = 0; w < 2; ++w)
    EXPECT_EQ(again[0].workers[w].seconds, speeds[0].workers[w].seconds);

  const auto refusal = [&](const auto& change) {
    nlohmann::json broken = plan;
    change(broken["speeds"][0]);
    folder.write("plan.json", broken.dump());
    return complaint([&] { folder.read_speeds(); });
  };
  EXPECT_THAT(refusal([](nlohmann::json& one) { one["workers"].erase(1); }),
              AllOf(HasSubstr("plan.json"), HasSubstr("speeds of 2 workers have times of 1"),
                    HasSubstr("leave --resume out")));
  EXPECT_THAT(refusal([](nlohmann::json& one) { one["workers"][1]["seconds"][3] = -1; }),
              HasSubstr("worker 1 have no measurable times"));
  EXPECT_THAT(refusal([](nlohmann::json& one) { one.erase("setting"); }), HasSubstr("plan.json"));
}

}  // namespace
}  // namespace ringside::runner
