// Workers with different shares of a step (train.shares).
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/device/cpu/cpu_device.h"
#include "core/interchange/weights.h"
#include "core/plan/slices.h"
#include "experiments/runner/plan/measurements.h"
#include "experiments/runner/run/measure_speeds.h"
#include "ps/schemes/dp.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/measured_speeds.h"

namespace ringside::runner {
namespace {

using ::testing::AllOf;
using testing::definition_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::made_up_speeds;
using testing::reference_of;
using testing::run;
using testing::tiny;
using testing::tiny_resnet;
using testing::violations;
using testing::wrong_losses;

using Weights = std::vector<std::int64_t>;

ExperimentConfig with_shares(ExperimentConfig config, const Weights& weights) {
  config.train.shares = Shares::given;
  config.train.weights = weights;
  return config;
}

int world_of(const Weights& weights) { return static_cast<int>(weights.size()); }

class UnevenShares : public ::testing::TestWithParam<std::tuple<std::string, Weights>> {
 protected:
  std::string scheme() const { return std::get<0>(GetParam()); }
  const Weights& weights() const { return std::get<1>(GetParam()); }
  int world() const { return world_of(weights()); }
};

TEST_P(UnevenShares, EndWithTheBitsOfTheirDefinition) {
  for (const std::int64_t accumulation : {1, 2}) {
    auto config = with_shares(tiny("mlp"), weights());
    config.train.accumulation = accumulation;
    config.train.evaluate_every = 2;
    config.train.evaluate_batches = 2;
    const RunRecord row = run(plan_training(config, scheme(), world()));
    EXPECT_THAT(violations(row, definition_of(config, scheme(), world())), IsEmpty());
    config.train.shares = Shares::equal;
    config.train.weights.clear();
    const RunRecord whole = run(plan_training(config, "single", 1));
    EXPECT_THAT(wrong_losses(row, whole, 1e-5), IsEmpty()) << "the samples of a step are the same";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Schemes, UnevenShares,
    ::testing::Combine(::testing::Values("ddp", "zero1", "zero2", "fsdp", "dp", "ps"),
                       ::testing::Values(Weights{3, 1}, Weights{2, 1, 1}, Weights{1, 2, 3})),
    [](const auto& info) {
      return fmt::format("{}_{}", std::get<0>(info.param), fmt::join(std::get<1>(info.param), "_"));
    });

TEST(UnevenShares, OfSixteenBitsAndDropoutEndWithTheBitsOfSingle) {
  auto config = with_shares(tiny("gpt"), {3, 1});
  config.model.dropout = 0.2;
  config.train.precision = Precision::bf16;
  for (const char* scheme : {"ddp", "zero1"})
    EXPECT_THAT(violations(run(plan_training(config, scheme, 2)), reference_of(config, 2)),
                IsEmpty())
        << scheme;
}

TEST(UnevenShares, OfBatchNormsAverageTheRunningStatisticsOfSamples) {
  auto config = with_shares(tiny_resnet(), {1, 2});
  config.train.accumulation = 2;
  config.train.evaluate_every = 2;
  const RunRecord row = run(plan_training(config, "ddp", 2));
  ASSERT_EQ(row.evaluations.size(), 3u);
  EXPECT_THAT(violations(row, reference_of(config, 2)), IsEmpty());
}

/// The running means of the first batch norm after one step from the same parameters.
std::vector<float> first_running_means(ExperimentConfig config, const char* scheme, int world) {
  config.train.steps = 1;
  config.train.warmup = 0;
  const testing::TemporaryFolder folder;
  RunPlan plan = plan_training(config, scheme, world);
  plan.save = folder.path() / "model.safetensors";
  run(plan);
  const auto device = make_cpu_device(1);
  const Model model = make_model(config.model, *device);
  const auto saved = open_weights(plan.save, model, config.model);
  for (const auto& unit : model.units) {
    saved->write_statistics(*unit);
    if (unit->statistics().empty()) continue;
    const Unit::Statistic& first = unit->statistics().front();
    EXPECT_TRUE(first.name.ends_with("running_mean")) << first.name;
    const auto values = first.values.span<float>();
    return {values.begin(), values.end()};
  }
  return {};
}

TEST(UnevenShares, OfBatchNormsHaveTheRunningMeansOfTheWholeBatch) {
  const auto whole = first_running_means(tiny_resnet(), "single", 1);
  ASSERT_FALSE(whole.empty());
  for (const Weights& weights : {Weights{5, 1}, Weights{1, 2, 3}}) {
    const auto means =
        first_running_means(with_shares(tiny_resnet(), weights), "ddp", world_of(weights));
    ASSERT_EQ(means.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i)
      EXPECT_NEAR(means[i], whole[i], 1e-5 * std::abs(whole[i]) + 1e-7) << i;
  }
}

TEST(UnevenShares, OfAMasterCostItTheBytesOfTheOthersAlone) {
  auto config = tiny("gpt");
  config.model.width = 8;  // inputs and logits are most of what is sent
  config.model.vocabulary = 256;
  config.train.global_batch = 96;
  config.scheme_options["dp"] = ps::DpOptions{.placement = ps::Placement::colocated};
  for (const Weights& weights : {Weights{5, 1}, Weights{1, 5}, Weights{1, 1}}) {
    const RunRecord row = run(plan_training(with_shares(config, weights), "dp", 2));
    const double away =
        96.0 * static_cast<double>(weights[1]) / static_cast<double>(weights[0] + weights[1]);
    const double minimum =
        4 * (static_cast<double>(row.parameters) + away * 8 * (1 + 256));  // tokens and gradients
    EXPECT_DOUBLE_EQ(row.bytes_minimum_per_step, minimum);
    EXPECT_GE(testing::busiest(row), minimum);
    EXPECT_LE(testing::busiest(row), 1.02 * minimum);
  }
}

TEST(Slices, CoverTheGlobalBatchOnceWorkerByWorker) {
  for (const Weights& weights : {Weights{3, 1}, Weights{1, 2, 3}, Weights{1, 1}})
    for (const std::int64_t accumulation : {1, 2}) {
      auto config = with_shares(tiny("mlp"), weights);
      config.train.accumulation = accumulation;
      const RunPlan plan = plan_training(config, "ddp", world_of(weights));
      config.scheme_options["single"] = SingleOptions{.replicas = plan.world};
      const RunPlan single = plan_training(config, "single", 1);
      std::int64_t next = 0, most = 0, place = 0;
      for (int worker = 0; worker < plan.world; ++worker) {
        const std::int64_t first = next;
        for (std::int64_t m = 0; m < accumulation; ++m) {
          const BatchSlice slice = slice_of(plan, worker, 7, m);
          EXPECT_EQ(slice, (BatchSlice{7, next, slice.count}));
          EXPECT_EQ(slice, slice_of(single, 0, 7, place++)) << "single has the same";
          if (m > 0) {
            EXPECT_EQ(slice, next_slice(plan, worker, 7, m - 1));
          }
          next += slice.count;
          most = std::max(most, slice.count);
        }
        EXPECT_EQ(next_slice(plan, worker, 7, accumulation - 1), slice_of(plan, worker, 8, 0));
        EXPECT_EQ(samples_of(plan, worker), next - first);
        std::int64_t parts = 0;
        for (const std::int64_t weight : weights) parts += weight;
        EXPECT_EQ((next - first) * parts, 24 * weights[static_cast<std::size_t>(worker)]);
      }
      EXPECT_EQ(next, 24);
      EXPECT_EQ(plan.train.micro_batch, most);
      EXPECT_EQ(largest_micro_batch(plan), most);
    }
}

TEST(Shares, StandInPlanAndRow) {
  const auto config = with_shares(tiny("mlp"), {6, 2});
  const RunPlan plan = plan_training(config, "ddp", 2);
  EXPECT_THAT(plan.train.weights, ElementsAre(18, 6));
  EXPECT_EQ(plan.sums.samples, plan.train.weights);
  const auto json = to_json(failed_row(plan, "not run"));
  EXPECT_EQ(json["train"]["shares"].dump(), "[18,6]");
  EXPECT_EQ(row_from_json(json, default_options).plan, plan);
}

TEST(Shares, ThatAreEvenAreEqual) {
  const RunPlan equal = plan_training(tiny("mlp"), "ddp", 2);
  EXPECT_EQ(plan_training(with_shares(tiny("mlp"), {2, 2}), "ddp", 2), equal);
  const RunPlan alone = plan_training(tiny("mlp"), "ddp", 1);
  EXPECT_EQ(plan_training(with_shares(tiny("mlp"), {3, 1}), "ddp", 1), alone)
      << "one worker has everything";
  EXPECT_FALSE(must_equal(plan_training(with_shares(tiny("mlp"), {3, 1}), "ddp", 2), equal));
}

TEST(Shares, AreSplitIntoMicroBatchesThatFit) {
  auto config = with_shares(tiny("mlp"), {3, 1});
  config.train.micro_batch = 7;  // of 18 samples; 6 for the other worker
  const RunPlan plan = plan_training(config, "ddp", 2);
  EXPECT_EQ(plan.train.accumulation, 3);
  EXPECT_THAT(plan.train.weights, ElementsAre(6, 2));
  EXPECT_EQ(plan.train.micro_batch, 6);
}

TEST(Shares, ThatCannotBeAreRefused) {
  const auto complaint = [](const ExperimentConfig& config, const char* scheme, int world) {
    try {
      plan_training(config, scheme, world);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto config = tiny("mlp");
  EXPECT_THAT(complaint(with_shares(config, {3, 1}), "ddp", 3),
              HasSubstr("train.shares = [3, 1] must have one weight for each of the 3 ranks"));
  EXPECT_THAT(complaint(with_shares(config, {3, 0}), "ddp", 2),
              HasSubstr("train.shares = 0 must be more than 0"));
  EXPECT_THAT(complaint(with_shares(config, {25, 1}), "ddp", 2),
              HasSubstr("train.shares = [25, 1] must have weights between 1 and"));
  EXPECT_THAT(complaint(with_shares(config, {3, 2}), "ddp", 2),
              HasSubstr("into 5 parts, and train.global_batch = 24 is no multiple"));
  auto accumulating = with_shares(config, {3, 1});
  accumulating.train.accumulation = 4;
  EXPECT_THAT(complaint(accumulating, "ddp", 2),
              HasSubstr("multiples of 6 samples, which 4 micro-batches do not divide evenly"));
  for (const char* scheme : {"local_sgd", "independent"})
    EXPECT_THAT(complaint(with_shares(config, {3, 1}), scheme, 2),
                AllOf(HasSubstr("replicas of their own"), HasSubstr("leave it at 'equal'")));
  auto joined = with_shares(tiny_resnet(), {3, 1});
  joined.model.batch_norm_group = 2;
  EXPECT_THAT(complaint(joined, "ddp", 2), HasSubstr("joins micro-batches of equal size"));
}

/// Trains at world 2 with shares by the speeds that `measured` has, and holds the run against its
/// definition.
RunRecord expect_bits_of_definition(const ExperimentConfig& config, const std::string& scheme,
                                    const MeasuredSpeeds& measured) {
  const RunPlan plan = plan_training(config, scheme, 2, {measured});
  EXPECT_FALSE(waits_for_speeds(plan));
  const RunPlan definition =
      has_own_definition(plan) ? plan_definition(plan) : plan_single_for({plan, &config});
  EXPECT_TRUE(must_equal(plan, definition));
  RunRecord row = run(plan);
  EXPECT_THAT(violations(row, run(definition)), IsEmpty()) << scheme;
  return row;
}

TEST(SharesBySpeed, EndWithTheBitsOfTheirDefinition) {
  auto config = tiny("mlp");
  config.train.shares = Shares::speed;
  config.train.global_batch = 30;
  config.train.micro_batch = 12;
  config.train.evaluate_every = 2;
  config.train.evaluate_batches = 2;
  const auto measured = made_up_speeds(plan_training(config, "ddp", 2), {0.1, 0.37});
  for (const char* scheme : {"ddp", "fsdp", "dp", "ps"}) {
    const RunRecord row = expect_bits_of_definition(config, scheme, measured);
    // 15 samples would be 12 and 3: these are as long as 3.24 of the fast worker.
    EXPECT_EQ(to_json(row)["train"]["shares"].dump(), "[12,3]") << scheme;
    EXPECT_EQ(row.plan.train.accumulation, 2);
    auto given = with_shares(config, row.plan.train.weights);
    given.train.accumulation = 2;
    EXPECT_EQ(run(plan_training(given, scheme, 2)).parameter_hashes, row.parameter_hashes)
        << "the weights of a row make the same run";
  }
}

TEST(SharesBySpeed, FollowFromARealMeasurement) {
  auto config = tiny("gpt");
  config.train.shares = Shares::speed;
  const RunPlan measuring = plan_measurement(plan_training(config, "ddp", 2));
  const RunMaker threads{[](const RunPlan& plan, const std::function<void(const Step&)>&) {
                           return RunOutcome{run(plan)};
                         },
                         [] { return false; }};
  const auto measured = measure_speeds(measuring, threads);
  ASSERT_TRUE(measured);
  for (const WorkerTimes& worker : measured->speeds.workers)
    EXPECT_EQ(static_cast<std::int64_t>(worker.seconds.size()),
              measuring.train.steps - measuring.train.warmup);
  // Which shares these are depends on what the machine does meanwhile.
  const RunRecord row = expect_bits_of_definition(config, "fsdp", measured->speeds);
  EXPECT_EQ(samples_of(row.plan, 0) + samples_of(row.plan, 1), config.train.global_batch);
}

}  // namespace
}  // namespace ringside::runner
