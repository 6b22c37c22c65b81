// Links that are fitted to measured tables, and `ringside calibrate --from`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/runner/config/cluster_file.h"
#include "experiments/tools/calibrate/cluster_fit.h"
#include "tests/experiments/program_test.h"
#include "tests/support/complaint.h"

namespace ringside::tools::calibrate {
namespace {

using testing::Ended;

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string a100 = RINGSIDE_CLUSTERS "/dgx-a100.toml";

/// The rates of all-reduces of 4 and 8 devices on a cluster with other latencies and a curve.
std::vector<bench::PublishedCollective> tables_of(const sim::ClusterSpec& cluster,
                                                  std::initializer_list<int> worlds) {
  std::vector<bench::PublishedCollective> tables;
  for (const int world : worlds) {
    bench::PublishedCollective one{.label = "made up", .cluster = a100, .world = world};
    for (const std::int64_t size : {1 << 10, 1 << 20, 1 << 24, 1 << 26}) one.sizes.push_back(size);
    one.busbw.assign(one.sizes.size(), 0);
    bench::CommBench bench = bench::bench_of(one);
    bench.cluster = cluster;
    std::size_t i = 0;
    bench::run_comm_bench(bench, [&](const bench::CommRow& row) { one.busbw[i++] = row.bus_bw; });
    tables.push_back(std::move(one));
  }
  return tables;
}

TEST(FitOfLinks, FindsTheLatencyAndTheCurveThatTablesWereMadeWith) {
  sim::ClusterSpec made = runner::read_cluster(a100);
  made.collective.tuning = sim::CollectiveTuning::rings;
  made.collective.base_us = 50;
  made.peer.by_mb.points = {{1.048576, 0.25}, {16.777216, 0.5}, {67.108864, 0.75}};
  sim::ClusterSpec cluster = runner::read_cluster(a100);
  const auto figures = fit_links(cluster, tables_of(made, {4, 8}));
  EXPECT_EQ(cluster.collective.tuning, sim::CollectiveTuning::rings);
  EXPECT_NEAR(cluster.collective.base_us, 50, 0.1);
  ASSERT_EQ(cluster.peer.by_mb.points.size(), 3u) << "the smallest size says the latency alone";
  for (const auto& [mb, share] : made.peer.by_mb.points)
    EXPECT_NEAR(cluster.peer.by_mb.at(mb), share, 0.01 * share) << mb;
  for (const FittedFigure& one : figures) {
    EXPECT_NEAR(one.after, one.measured, 0.01 * one.measured);
    EXPECT_NEAR(*one.left_out, one.measured, 0.01 * one.measured) << "one table gives the other";
  }
  EXPECT_LT(cluster.collective.error, 0.01);
}

TEST(FitOfLinks, LeavesTheSizesOfASingleTableOut) {
  sim::ClusterSpec made = runner::read_cluster(a100);
  made.peer.by_mb.points = {{1.048576, 0.2}, {16.777216, 0.9}, {67.108864, 0.9}};
  sim::ClusterSpec cluster = runner::read_cluster(a100);
  const auto figures = fit_links(cluster, tables_of(made, {8}));
  ASSERT_EQ(figures.size(), 4u);
  EXPECT_FALSE(figures[0].left_out);
  EXPECT_FALSE(figures[3].left_out);
  EXPECT_LT(*figures[2].left_out, 0.95 * figures[2].measured) << "between 0.2 and 0.9";
  EXPECT_NEAR(figures[2].after, figures[2].measured, 0.01 * figures[2].measured);
  EXPECT_GT(cluster.collective.error, 0.05);
}

TEST(FitOfLinks, AreOfLinks) {
  sim::ClusterSpec cluster = runner::read_cluster(a100);
  const auto tables = tables_of(cluster, {8});
  cluster.collective.kind = sim::CollectiveKind::shm;
  EXPECT_THAT(testing::complaint([&] { fit_links(cluster, tables); }),
              HasSubstr("cluster dgx-a100: its ranks sum in shared memory"));
}

class CalibrateFrom : public ProgramTest {};

TEST_F(CalibrateFrom, WritesAClusterFileWithWhichTheFiguresComeOut) {
  folder_.write("steps.toml", R"([model]
preset = "resnet-18-cifar"
[data]
kind = "synthetic-images"
[train]
steps = 3
warmup = 1
global_batch = 64
precision = "fp16"
[device]
kind = "sim"
cluster = ")" + a100 + R"("
[compare]
repeats = 1
[[compare.case]]
scheme = "single"
world = 1
published_per_s = [9000]
[[compare.case]]
scheme = "ddp"
world = 2
published_per_s = [15000]
)");
  folder_.write("links.toml", "[[collective]]\nlabel = \"mine\"\ncluster = \"" + a100 +
                                  "\"\ntable = \"nccl.txt\"\n");
  folder_.write("nccl.txt", R"(#  Rank  0 Group  0 Pid 1 on node device  0 [0x07] NVIDIA A100
#  Rank  1 Group  0 Pid 1 on node device  1 [0x0b] NVIDIA A100
#   size   count      type   redop    root     time  algbw  busbw #wrong
#    (B) (elements)                            (us) (GB/s) (GB/s)
    1024     256     float     sum      -1    60.00   0.02   0.02   0
 1048576  262144     float     sum      -1   110.00   9.53   9.53   0
16777216 4194304     float     sum      -1   210.00  79.89  79.89   0
)");
  const Ended ended = run({"calibrate", "--from", "steps.toml", "links.toml"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out,
              AllOf(HasSubstr("9000.0 (+0.0%)"),
                    HasSubstr("Figures of several devices, or of no speed, were left alone: 1."),
                    HasSubstr("Written to results/dgx-a100-fitted.toml")));
  const std::string file = (folder_.path() / "results/dgx-a100-fitted.toml").string();
  const sim::ClusterSpec fitted = runner::read_cluster(file);
  ASSERT_EQ(fitted.speeds.size(), 1u);
  EXPECT_EQ(fitted.speeds[0].model, "resnet-18-cifar");
  EXPECT_EQ(fitted.speeds[0].precision, "fp16");
  EXPECT_EQ(fitted.nic, runner::read_cluster(a100).nic);
  EXPECT_EQ(fitted.device.tflops, runner::read_cluster(a100).device.tflops);
  EXPECT_GT(fitted.collective.error, 0);

  const Ended again = run({"validate", "steps.toml", "--set", "device.cluster=" + file});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out, ::testing::ContainsRegex("9000.0 \\| +(8999|9000).. \\| +.0.0%"));
  EXPECT_THAT(run({"calibrate", "--from", "steps.toml", "--cluster", "links.toml"}).err,
              HasSubstr("no case of these files says what was published of one device of"));
  EXPECT_EQ(run({"calibrate", "--from", "steps.toml", "--threads", "2"}).status, 2);
}

}  // namespace
}  // namespace ringside::tools::calibrate
