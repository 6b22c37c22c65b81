// The operations of a sample, and the share of the devices' peak that a run uses.
#include "experiments/runner/report/utilization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/runner/registry/model_work.h"
#include "experiments/runner/report/report.h"
#include "experiments/runner/report/summary_tables.h"
#include "tests/experiments/made_up_rows.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

using ::testing::DoubleEq;
using ::testing::HasSubstr;

RunPlan gpt_plan(Recompute recompute = Recompute::none) {
  ExperimentConfig config = made_up_experiment();
  config.model = {.layers = 3, .heads = 2, .width = 8, .context = 5, .vocabulary = 11};
  config.train.recompute = recompute;
  return plan_training(config, "single", 1);
}

// A block of a GPT has 12 width^2 parameters in products, the head width * vocabulary.
constexpr double parameters_in_products = 3 * 12 * 8 * 8 + 8 * 11, tokens = 5;
// Position p sees p + 1 keys.
constexpr double attention = 3 * 2 * 2 * 8 * (1 + 2 + 3 + 4 + 5);

TEST(ModelWork, OfATransformerIs6NATokenAndAttention) {
  const ModelWork work = work_of_sample(gpt_plan(), tokens);
  EXPECT_EQ(work.linear, 2 * parameters_in_products * tokens);
  EXPECT_EQ(work.attention, attention);
  EXPECT_EQ(work.convolution, 0);
  EXPECT_EQ(work.model(), 6 * parameters_in_products * tokens + 3 * attention);
  // Backward computes the scores once more: 5 products for the 2 of forward.
  EXPECT_EQ(work.executed, 3 * work.linear + 3.5 * work.attention);
}

TEST(ModelWork, CountsWhatIsRecomputedAsExecutedAlone) {
  const ModelWork none = work_of_sample(gpt_plan(), tokens),
                  full = work_of_sample(gpt_plan(Recompute::full), tokens);
  EXPECT_EQ(full.model(), none.model());
  // All units but the head compute forward twice.
  const double head = 2 * 8 * 11 * tokens;
  EXPECT_EQ(full.executed, none.executed + none.forward() - head);
  const double some = work_of_sample(gpt_plan(Recompute::attention), tokens).executed;
  EXPECT_GT(some, none.executed);
  EXPECT_LT(some, full.executed);
}

TEST(ModelWork, OfImagesIsThatOfConvolutionsAndLinearLayers) {
  ExperimentConfig config = made_up_experiment();
  config.data.kind = "synthetic-images";
  config.model = {.kind = "resnet", .layers = 10, .image = 8, .classes = 5, .filters = 4};
  const ModelWork work = work_of_sample(plan_training(config, "single", 1), 0);
  // Products of the first convolution, of the stage at 8 x 8 pixels, and of three stages of half
  // the extent and twice the channels each, which also have a convolution of 1 x 1.
  const double first = 64 * 9 * 3 * 4, at_8 = 2 * 64 * 9 * 4 * 4;
  const double later = 3 * 16 * 9 * (4 * 8 + 8 * 8) + 3 * 16 * 4 * 8;
  EXPECT_EQ(work.linear, 2 * 32 * 5);
  EXPECT_EQ(work.convolution, 2 * (first + at_8 + later));
  EXPECT_EQ(work.tokens, 0);
  // The first convolution has no gradient of its input.
  EXPECT_EQ(work.executed, work.model() - 2 * first);
}

RunRecord row_of(const ModelWork& work) {
  RunRecord row = made_up_row("ddp", 2, 0, 100, "a", {2, 1});
  row.tokens_per_s = 100 * work.tokens;
  row.work = work;
  return row;
}

const ModelWork work{.linear = 8e6, .attention = 2e6, .executed = 40e6, .tokens = 10};

TEST(Utilization, IsThatOfAllWorkers) {
  RunRecord row = row_of(work);
  row.measured_peak = Peak{5e9, "fp32", "somebody said so"};
  const Utilization used = utilization_of(row, 100);
  ASSERT_TRUE(used.mfu);
  EXPECT_THAT(*used.mfu, DoubleEq(100 * 30e6 / (2 * 5e9)));
  EXPECT_FALSE(used.hfu);
  EXPECT_EQ(used.missing, "");
  for (const char* part : {"linear 8 MFLOP + attention 2 MFLOP", "N = 4e+05", "30 MFLOP",
                           "100 samples/s", "2 workers x 5 GFLOP/s in fp32", "= 30.0%"})
    EXPECT_THAT(used.formula, HasSubstr(part));
}

TEST(Utilization, CountsWhatIsRecomputedApart) {
  RunRecord row = row_of(work);
  row.measured_peak = Peak{5e9, "fp32", ""};
  row.plan.train.recompute = Recompute::full;
  const Utilization used = utilization_of(row, 100);
  EXPECT_THAT(*used.mfu, DoubleEq(0.3));
  EXPECT_THAT(*used.hfu, DoubleEq(0.4));
}

TEST(Utilization, TakesThePeakOfTheSimulatedClusterOrOfTheExperiment) {
  RunRecord row = row_of(work);
  row.plan.cluster = testing::small_cluster(2);
  row.plan.cluster->device.tflops["fp32"] = 0.25;
  EXPECT_EQ(peak_of(row)->flops, 0.25e12);
  EXPECT_THAT(peak_of(row)->source, HasSubstr(row.plan.cluster->device.name));
  row.plan.device.peak_tflops = 2;
  EXPECT_EQ(peak_of(row)->flops, 2e12);
  EXPECT_THAT(peak_of(row)->source, HasSubstr("device.peak_tflops"));
}

TEST(Utilization, IsTheMeanOverUnequalDevices) {
  RunRecord row = row_of(work);
  sim::ClusterSpec cluster = testing::small_cluster(2);
  cluster.machines = 2;
  cluster.devices = 1;
  cluster.device.tflops["fp32"] = 3;
  sim::DeviceSpec slower = cluster.device;
  slower.tflops["fp32"] = 1;
  cluster.others = {{.first = 1, .count = 1, .device = slower}};
  row.plan.cluster = cluster;
  EXPECT_EQ(peak_of(row)->flops, 2e12);
}

TEST(Utilization, SaysWhyItIsNotKnown) {
  EXPECT_THAT(utilization_of(row_of(work), 100).missing, HasSubstr("ringside calibrate"));
  RunRecord of_gpu = row_of(work);
  of_gpu.plan.device.kind = "cuda";
  EXPECT_THAT(utilization_of(of_gpu, 100).missing, HasSubstr("device.peak_tflops"));
  RunRecord of_lengths = row_of(work);
  of_lengths.tokens_per_s /= 2;
  of_lengths.measured_peak = Peak{5e9, "fp32", ""};
  EXPECT_THAT(utilization_of(of_lengths, 100).missing, HasSubstr("differ in length"));
  const auto json = to_json(utilization_of(row_of(work), 100));
  EXPECT_TRUE(json["value"].is_null());
  EXPECT_EQ(json["flops_per_sample"], 30e6);
}

TEST(Utilization, HasATableOnlyWhereItIsKnown) {
  RunRecord row = row_of(work);
  const auto has_table = [](const RunRecord& one) {
    return summary_text(summarise({one})).find("| utilization") != std::string::npos;
  };
  EXPECT_FALSE(has_table(row));
  row.measured_peak = Peak{5e9, "fp32", ""};
  EXPECT_TRUE(has_table(row));
}

TEST(Overlap, IsTheCommunicationThatIsNotWaitedFor) {
  RunRecord row = made_up_row("ddp", 2, 0, 100, "a", {2, 1});
  row.time_ms.communication = 8;
  row.time_ms.exposed = 2;
  const CaseSummary one = summarise({row})[0];
  EXPECT_EQ(one.time_ms.hidden, 6);
  EXPECT_EQ(one.overlap, 0.75);
  row.time_ms.exposed = 9;  // waits for a rank that is late
  EXPECT_EQ(summarise({row})[0].time_ms.hidden, 0);
  EXPECT_EQ(summarise({row})[0].overlap, 0);
  row.time_ms.communication = 0;
  EXPECT_FALSE(summarise({row})[0].overlap);
}

}  // namespace
}  // namespace ringside::runner
