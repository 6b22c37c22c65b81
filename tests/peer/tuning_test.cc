// By which algorithm and protocol simulated GPUs sum, and that they take the times that follow from
// it; figures are worked out by hand.
#include "peer/comm/sim/tuning.h"

#include <gtest/gtest.h>

#include "peer/comm/sim/trees.h"
#include "tests/peer/sim_ranks.h"

namespace ringside::peer {
namespace {

using testing::run_simulated;
using testing::Simulated;
using testing::small_cluster;

const TuningRow& row_of(NcclTopology shape, std::string_view protocol) {
  for (const TuningRow& row : tuning_rows())
    if (row.shape == shape && row.protocol == protocol) return row;
  throw std::logic_error("no such row");
}

TEST(Tuning, StepsOfOtherRowsDifferFromTheLinksAsNcclsDo) {
  const TuningRow& simple = row_of(NcclTopology::ring, "Simple");
  const TuningRow& tree = row_of(NcclTopology::tree, "LL");
  EXPECT_EQ(&simple, &tuning_rows().front());
  EXPECT_DOUBLE_EQ(step_us(simple, LinkKind::nvlink, 7), 7);
  EXPECT_DOUBLE_EQ(step_us(row_of(NcclTopology::ring, "LL"), LinkKind::nvlink, 3.4), 0.6);
  EXPECT_DOUBLE_EQ(step_us(tree, LinkKind::network, 9.6), 5);
  // Ethernet's latency of 30 us comes on top of all.
  EXPECT_DOUBLE_EQ(step_us(tree, LinkKind::network, 38.1), 33.5);
}

/// An all-reduce of 32 machines of 8 GPUs, with rings at 200 GB/s and the steps of NVLink and
/// InfiniBand: 2 x 255 steps, of which 64 are between machines; trees take 2 x 7 and 2 x 5.
std::vector<Way> ways() {
  std::vector<Way> out;
  for (const TuningRow& row : tuning_rows()) {
    const double nvlink = row.step_us[0], network = row.step_us[2];
    const bool ring = row.shape == NcclTopology::ring;
    out.push_back(
        {.row = &row,
         .base = row.base_us.value_or(8.4) * 1e-6,
         .latency = 1e-6 * (ring ? 446 * nvlink + 64 * network : 2 * (7 * nvlink + 5 * network)),
         .per_byte = (ring ? 2 * 255.0 / 256 : 2) / 200e9,
         .gbs = 200});
  }
  return out;
}

std::string fastest(double bytes, double longer = 1) {
  const std::vector<Way> all = ways();
  const Way& way = fastest(all, bytes, longer);
  return fmt::format("{} {}", way.row->shape == NcclTopology::ring ? "ring" : "tree",
                     way.row->protocol);
}

TEST(Tuning, SmallArraysTakeTreesAndLargeOnesRings) {
  // In microseconds, tree LL: 6.8 + 2 * (7 * 0.6 + 5 * 5) = 65.2, and 2 S at 20.4 GB/s; tree
  // Simple: 8.4 + 2 * (7 * 4 + 5 * 14) = 204.4, and 2 S at 0.92 * 200 GB/s; ring Simple: 8.4 + 446
  // * 3.4 + 64 * 9.6 = 2139.2, and 2 S at 200 GB/s. Rates of trees are lower at some sizes.
  EXPECT_EQ(fastest(0), "tree LL");
  EXPECT_EQ(fastest(512), "tree LL");
  // 65.2 + 1e3 * 0.524 * 2 / (20.4 * 0.4) = 194 against 204.4 + 1e3 * 0.524 * 2 / (184 * 0.5) = 216
  EXPECT_EQ(fastest(1 << 19), "tree LL");
  EXPECT_EQ(fastest(1 << 20), "tree Simple");
  EXPECT_EQ(fastest(25 << 20), "tree Simple");
  // At 256 MiB trees lose 1 / (0.92 * 0.9) - 1 = 0.21 of 2674 us, less than 1935, at 1 GiB, with
  // the whole 0.92, 0.09 of 10695 us, less too, and at 32 GiB 0.09 of 342 ms, which is more.
  EXPECT_EQ(fastest(1 << 28), "tree Simple");
  EXPECT_EQ(fastest(1LL << 30), "tree Simple");
  EXPECT_EQ(fastest(1LL << 35), "ring Simple");
  // Bytes that take ten times as long weigh more.
  EXPECT_EQ(fastest(1 << 19, 10), "tree Simple");
}

TEST(Tuning, TheProtocolLLHasALimitAndAShare) {
  Way way{.row = &row_of(NcclTopology::ring, "LL"), .gbs = 200};
  EXPECT_DOUBLE_EQ(share_of(way, 1 << 20), 20.4 / 200);
  way.gbs = 40;
  EXPECT_DOUBLE_EQ(share_of(way, 1 << 20), 0.25);
  way.row = &row_of(NcclTopology::tree, "Simple");
  EXPECT_DOUBLE_EQ(share_of(way, 1), 0.92);
  EXPECT_DOUBLE_EQ(share_of(way, 64), 0.92 * 0.9);
  EXPECT_DOUBLE_EQ(share_of(way, 1 << 20), 0.92 * 0.5);
  EXPECT_DOUBLE_EQ(share_of(way, 1LL << 32), 0.92);
}

/// 4 machines of 2 GPUs with one NIC each.
Simulated machines(std::int64_t message_ranks) {
  Simulated out{small_cluster(2), {.message_ranks = message_ranks}, false};
  out.cluster.device.memory_gb = 100;
  out.cluster.machines = 4;
  out.cluster.peer = {.gbs = 10, .latency_us = 0.5, .step_us = 3.4};
  out.cluster.nic = {.gbs = 1, .latency_us = 1.5, .step_us = 9.6};
  out.cluster.collective.tuning = sim::CollectiveTuning::by_size;
  return out;
}

double all_reduce_s(const Simulated& simulated, std::int64_t bytes) {
  const auto size = static_cast<int>(simulated.cluster.machines * simulated.cluster.devices);
  return run_simulated(simulated, size, [&](const testing::Rank& r) {
    r.comm.all_reduce(r.floats(bytes / 4))->wait();
  });
}

TEST(Tuning, SimulatedAllReducesTakeTheFastest) {
  for (const std::int64_t message_ranks : {0, 8}) {
    Simulated simulated = machines(message_ranks);
    // A tree with LL: a step in the machine and two between machines, up and down. NICs move every
    // byte twice, at 0.92 / 3.8 of their rate.
    EXPECT_NEAR(all_reduce_s(simulated, 4),
                1e-6 * (6.8 + 2 * (0.6 + 2 * 5.0)) + 2 * 4 * 3.8 / 0.92 / 1e9, 1e-9);
    // Rings with Simple: 7 steps in machines and 7 between.
    const double steps = 8e-6 + 1e-6 * 7 * (3.4 + 9.6);
    const double large = steps + 2 * 7 / 8.0 * (1 << 28) / 1e9;
    EXPECT_NEAR(all_reduce_s(simulated, 1 << 28), large, 0.01 * large);
    simulated.cluster.collective.tuning = sim::CollectiveTuning::rings;
    EXPECT_NEAR(all_reduce_s(simulated, 4), steps, 0.01 * steps);
    EXPECT_NEAR(all_reduce_s(simulated, 1 << 28), large, 0.01 * large);
  }
}

TEST(Tuning, TwoMachinesMoveHalfOfARingsBytesOverTheirNetworkByTrees) {
  for (const std::int64_t message_ranks : {0, 8}) {
    Simulated simulated = machines(message_ranks);
    simulated.cluster.machines = 2;
    const double expected = (1 << 28) / 0.92 / 0.9 / 1e9;
    EXPECT_NEAR(all_reduce_s(simulated, 1 << 28), expected, 0.01 * expected);
  }
}

/// All ranks call operations of every way one after the other, and come at different times.
TEST(Tuning, OperationsOfAllWaysFollowEachOther) {
  for (const std::int64_t message_ranks : {0, 8}) {
    const Simulated simulated = machines(message_ranks);
    double sum = 0;
    for (const std::int64_t bytes : {1 << 26, 4, 1 << 26, 4, 4})
      sum += all_reduce_s(simulated, bytes);
    const double late = 1e-3;
    const double together = run_simulated(simulated, 8, [&](const testing::Rank& r) {
      if (r.rank == 5) sim::sim_device(r.device).world().sleep(late);
      std::vector<WorkPtr> works;
      for (const std::int64_t bytes : {1 << 26, 4, 1 << 26, 4, 4})
        works.push_back(r.comm.all_reduce(r.floats(bytes / 4)));
      for (const auto& work : works) work->wait();
    });
    EXPECT_NEAR(together, late + sum, 0.02 * sum) << message_ranks;
  }
}

}  // namespace
}  // namespace ringside::peer
