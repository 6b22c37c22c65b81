// Measured tables as programs write them, and the speeds of models that are fitted to them.
#include "experiments/tools/calibrate/cluster_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/models/presets.h"
#include "experiments/runner/plan/planner.h"
#include "experiments/tools/bench/measured_table.h"
#include "tests/experiments/made_up_rows.h"
#include "tests/support/complaint.h"
#include "tests/support/small_cluster.h"
#include "tests/support/temporary_folder.h"

namespace ringside::tools::calibrate {
namespace {

using testing::complaint;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MeasuredTables : public ::testing::Test {
 protected:
  bench::MeasuredTable read(const std::string& text, std::int64_t world = 0) const {
    return bench::read_measured_table(folder_.write("table", text), "all_reduce", world);
  }
  std::string refused(const std::string& text, std::int64_t world = 0) const {
    return complaint([&] { read(text, world); });
  }
  testing::TemporaryFolder folder_;
};

TEST_F(MeasuredTables, AreReadFromTheColumnsOfNcclTests) {
  const bench::MeasuredTable table = read(R"(NCCL version 2.19.3+cuda12.3
# Using devices
#  Rank  0 Group  0 Pid     71 on node device  0 [0x07] NVIDIA A100
#  Rank  1 Group  0 Pid     71 on node device  1 [0x0b] NVIDIA A100
#       size         count      type   redop    root     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)
           0             0     float     sum      -1     8.11    0.00    0.00      0
     1048576        262144     float     sum      -1    44.24   23.70   23.70      0   45.0 23.3 23.3 0
    16777216       4194304     float     sum      -1    132.1  127.00  127.00    N/A
# Avg bus bandwidth    : 75.3
)");
  EXPECT_EQ(table.ranks, 2);
  EXPECT_THAT(table.sizes, ElementsAre(1048576, 16777216));
  EXPECT_THAT(table.us, ElementsAre(44.24, 132.1));
}

/// Before 2.12 there is no column of roots, and some programs leave out the operation, or leave its
/// cell empty.
TEST_F(MeasuredTables, HaveTheirColumnsWhereTheHeadingsSay) {
  for (const char* lines :
       {"#  size  count  type redop   time algbw busbw  error   time algbw busbw  error\n"
        "#   (B)                       (us) (GB/s) (GB/s)\n"
        "268435456 67108864 float sum 1458.9 184.00 184.00 0 1450.0 185.13 185.13 0\n",
        "#  size  count  type   time algbw busbw  error   time algbw busbw  error\n"
        "268435456 67108864 float 1458.9 184.00 184.00 0 1450.0 185.13 185.13 0\n",
        "#  size  count  type redop   time algbw busbw  error   time algbw busbw  error\n"
        "268435456 67108864 float     1458.9 184.00 184.00 0 1450.0 185.13 185.13 0\n",
        "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
        "268435456 67108864 float sum -1 N/A N/A N/A N/A 1458.9 184.00 184.00 0\n"}) {
    const bench::MeasuredTable table = read(lines);
    EXPECT_THAT(table.sizes, ElementsAre(268435456)) << lines;
    EXPECT_THAT(table.us, ElementsAre(1458.9)) << lines;
  }
}

TEST_F(MeasuredTables, WhoseBandwidthsAreNotSizeByTimeAreRefused) {
  EXPECT_THAT(refused("# size count type redop time algbw busbw\n"
                      "268435456 67108864 float sum 184.00 184.00 0\n"),
              HasSubstr("table:2: 268435456 bytes in 184 us are 1458.89 GB/s"));
  EXPECT_THAT(refused("# size count type redop root time algbw busbw\n"
                      "268435456 67108864 float sum -1 1458.9 18.400 18.400\n"),
              HasSubstr("table:2: 268435456 bytes in 1458.9 us are 184.00 GB/s, but algbw says"));
  EXPECT_THAT(refused(R"({"results": [{"size": 64000, "in_place": {"time": 10, "alg_bw": 3}}]})"),
              HasSubstr("64000 bytes in 10 us are 6.40 GB/s, but algbw says 3"));
}

TEST_F(MeasuredTables, AreReadFromTheJsonOfNcclTestsAndOfOurOwn) {
  const std::string nccl = R"({"version": 2, "config": {"devices": [
      {"rank": 0, "hostname": "a"}, {"rank": 1, "hostname": "a"}, {"rank": 2, "hostname": "b"}]},
    "results": [{"size": 8, "count": 2, "type": "float", "redop": "sum",
                 "out_of_place": {"time": 12.5, "alg_bw": 0, "bus_bw": 0}},
                {"size": 64, "count": 16, "out_of_place": null, "in_place": {"time": 13}}]})";
  const bench::MeasuredTable table = read(nccl);
  EXPECT_EQ(table.ranks, 3);
  EXPECT_THAT(table.sizes, ElementsAre(8, 64));
  EXPECT_THAT(table.us, ElementsAre(12.5, 13));

  const std::string own = R"({"cluster": null, "results": [
    {"operation": "all_reduce", "world": 2, "size": 64, "in_place": {"time_us": 5.5}},
    {"operation": "all_gather", "world": 2, "size": 64, "in_place": {"time_us": 7}},
    {"operation": "all_reduce", "world": 4, "size": 64, "in_place": {"time_us": 9}}]})";
  EXPECT_THAT(read(own, 4).us, ElementsAre(9));
  EXPECT_THAT(refused(own), HasSubstr("table: there are rows of 2 and of 4 ranks; give world"));
}

TEST_F(MeasuredTables, ThatAreNoneAreRefusedByTheirPlace) {
  EXPECT_THAT(refused("hello\n"), HasSubstr("there are no rows; give the output of a program of"));
  EXPECT_THAT(refused("64 16 float sum -1 5 0.01 0.01\n"),
              HasSubstr("table:1: a row without headings above it"));
  const std::string headings = "# size count type redop root time algbw\n";
  EXPECT_THAT(refused(headings + "64 16 float\n"),
              HasSubstr("table:2: the row has no time and algbw where the headings have them"));
  EXPECT_THAT(refused(headings + "64 16 float sum -1 0 0\n"), HasSubstr("table:2: a time of 0 us"));
  EXPECT_THAT(refused(headings + "64 16 float sum -1 5 0.01\n64 16 half sum -1 5 0.01\n"),
              HasSubstr("table:3: 64 bytes come twice"));
  EXPECT_THAT(refused(R"({"results": [{"size": "x", "in_place": {"time": 1}}]})"),
              HasSubstr("no JSON of nccl-tests (-J)"));
  EXPECT_THAT(refused(R"({"results": [{"size": 8}]})"),
              HasSubstr("a row has no out_of_place.time"));
  EXPECT_THAT(
      complaint([&] { bench::read_measured_table(folder_.path() / "none", "all_reduce", 0); }),
      HasSubstr("none: no such file"));
}

/// A plan of one device, of which `per_s` samples a second were published.
RunPlan published(const char* preset, double per_s) {
  auto config = made_up_experiment();
  config.model = find_preset(preset).config;
  config.data.kind = "synthetic-images";
  config.device.kind = "sim";
  config.cluster = testing::small_cluster(1);
  RunPlan plan = runner::plan_training(config, "single", 1);
  plan.listing.label = preset;
  plan.listing.published = {{.measure = Measure::samples_per_s, .value = per_s}};
  return plan;
}

/// Samples take 1 ms, and others by the speed of the device: 4 ms for a ResNet-18, 8 for others.
double made_up_simulation(const RunPlan& plan) {
  const double share = plan.cluster->device.efficiency.at("fp32").at("linear").at(1) / 0.5;
  const double ms = plan.model.layers == 18 ? 4 : 8;
  return 1e3 / (1 + ms / share);
}

TEST(Fit, FindsTheSpeedsOfModelsAndLeavesEachOut) {
  sim::ClusterSpec cluster = testing::small_cluster(1);
  const auto figures = fit_speeds(
      cluster, {published("resnet-18-cifar", 1e3 / 3), published("resnet-34-cifar", 1e3 / 17)},
      made_up_simulation);
  // 1 + 4 / 2 = 3 and 1 + 8 / 0.5 = 17.
  EXPECT_EQ(cluster.speeds, (std::vector<sim::ModelSpeed>{{"resnet-18-cifar", "fp32", 2},
                                                          {"resnet-34-cifar", "fp32", 0.5}}));
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_NEAR(figures[0].before, 1e3 / 5, 1e-6);
  EXPECT_NEAR(figures[0].after, 1e3 / 3, 1e-6);
  EXPECT_NEAR(*figures[0].left_out, 1e3 / (1 + 4 / 0.5), 1e-6);
  EXPECT_NEAR(*figures[1].left_out, 1e3 / (1 + 8 / 2.0), 1e-6);
  // 9 ms in place of 3 is further off than 5 in place of 17.
  EXPECT_NEAR(cluster.device.error.at("fp32"), 17.0 / 5 - 1, 1e-4);
  EXPECT_THAT(fit_text(figures), HasSubstr("333.3 (+0.0%)"));
}

TEST(Fit, OneModelAloneHasNoOtherToBePredictedFrom) {
  sim::ClusterSpec cluster = testing::small_cluster(1);
  cluster.device.error["fp32"] = 0.125;
  const RunPlan fast = published("resnet-18-cifar", 1e3 / 3);
  RunPlan slow = fast;
  slow.listing.published = {
      {.measure = Measure::step_ms, .value = 9.0 * static_cast<double>(slow.train.global_batch)}};
  const auto figures = fit_speeds(cluster, {fast, slow}, made_up_simulation);
  // Factors 2 and 1/2.
  // At 1 a sample takes 5 ms.
  ASSERT_EQ(cluster.speeds.size(), 1u);
  EXPECT_DOUBLE_EQ(cluster.speeds[0].factor, 1);
  EXPECT_NEAR(cluster.speeds[0].error, 9.0 / 5 - 1, 1e-4);
  EXPECT_FALSE(figures[0].left_out);
  EXPECT_EQ(cluster.device.error.at("fp32"), 0.125) << "what was known before";
}

TEST(Fit, RefusesWhatItCannotFit) {
  const auto refused = [](const RunPlan& plan) {
    sim::ClusterSpec cluster = testing::small_cluster(1);
    return complaint([&] { fit_speeds(cluster, {plan}, made_up_simulation); });
  };
  EXPECT_THAT(refused(published("resnet-18-cifar", 1000)),
              HasSubstr("resnet-18-cifar: 1000 samples/s were measured, but launches and what else "
                        "does not depend on the device's speed take 1 ms"));
  RunPlan plan = published("resnet-18-cifar", 100);
  plan.model.classes = 11;
  EXPECT_THAT(refused(plan), HasSubstr("its model is no preset"));
  plan = published("resnet-18-cifar", 100);
  plan.device.efficiency = 2;
  EXPECT_THAT(refused(plan), HasSubstr("device.efficiency = 2: this factor is what is looked for"));
}

}  // namespace
}  // namespace ringside::tools::calibrate
