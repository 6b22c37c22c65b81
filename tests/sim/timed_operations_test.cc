// Operations whose times a cluster file knows, and the memory that the ranks of a CPU share.
#include "core/device/sim/timed_operations.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/device/sim/sim_device.h"
#include "tests/support/complaint.h"
#include "tests/support/small_cluster.h"

namespace ringside::sim {
namespace {

using testing::complaint;
using testing::small_cluster;

const std::vector<TimedOperation> known = {{"a", "fp32", "optimizer", 700, 1000, 10, 0.5},
                                           {"a", "fp32", "optimizer", 1400, 2000, 30, 0.5},
                                           {"b", "fp32", "optimizer", 1400, 2000, 50, 0.5},
                                           {"a", "bf16", "optimizer", 700, 1000, 7, 0},
                                           {"a", "fp32", "elementwise", 0, 1000, 3, 1}};

double us_of(const OpCost& cost, const std::string& dtype = "fp32") {
  TimedOperations timed(known);
  const auto found = timed.find(cost, dtype);
  return found ? 1e6 * found->seconds : 0;
}

TEST(TimedOperations, TakeTheTimeOfTheirCostClassAndDtype) {
  EXPECT_NEAR(us_of({OpClass::optimizer, 700, 1000}), 10, 1e-12);
  EXPECT_NEAR(us_of({OpClass::optimizer, 700, 1000}, "bf16"), 7, 1e-12);
  EXPECT_NEAR(us_of({OpClass::optimizer, 1400, 2000}), 40, 1e-12) << "the mean of two trainings";
  TimedOperations timed(known);
  EXPECT_NEAR(timed.find({OpClass::optimizer, 1400, 2000}, "fp32")->in_memory, 20e-6, 1e-18);
}

TEST(TimedOperations, OneOfAnotherSizeStandsInForTheSameKernel) {
  EXPECT_NEAR(us_of({OpClass::optimizer, 350, 500}), 5, 1e-12);
  EXPECT_NEAR(us_of({OpClass::optimizer, 5600, 8000}), 160, 1e-12);
  EXPECT_NEAR(us_of({OpClass::elementwise, 0, 500}), 1.5, 1e-12);
  EXPECT_EQ(us_of({OpClass::optimizer, 7000, 10000}), 0) << "more than four times as large";
  EXPECT_EQ(us_of({OpClass::optimizer, 300, 1000}), 0) << "other operations a byte: SGD, not AdamW";
  EXPECT_EQ(us_of({OpClass::elementwise, 100, 1000}), 0);
  EXPECT_EQ(us_of({OpClass::loss, 700, 1000}), 0);
  EXPECT_EQ(us_of({OpClass::optimizer, 0, 0}), 0);
  EXPECT_EQ(us_of({OpClass::optimizer, 700, 1000}, "fp16"), 0);
}

TEST(TimedOperations, OfTwoThatAreAsFarAwayTheLargerOneStandsIn) {
  TimedOperations timed(
      {{"a", "fp32", "loss", 0, 1000, 10, 0}, {"a", "fp32", "loss", 0, 4000, 80, 0}});
  EXPECT_NEAR(timed.find({OpClass::loss, 0, 2000}, "fp32")->seconds, 40e-6, 1e-18);
}

TEST(TimedOperations, NameAClassThatThereIs) {
  EXPECT_EQ(complaint([] {
              TimedOperations({{"a", "fp32", "sorting", 0, 1, 1, 0}});
            }).substr(0, 65),
            "an operation that was timed is of class 'sorting'; there are line");
}

/// One machine whose CPU has `cores` cores, of which `streams` can use the memory at full speed.
ClusterSpec processor(std::int64_t cores, double streams) {
  ClusterSpec cluster = small_cluster(1);
  cluster.device = cluster.host;
  cluster.device.cores = cores;
  cluster.device.streams = streams;
  cluster.device.launch_us = 0;
  cluster.topology = Topology::pcie;
  cluster.collective.kind = CollectiveKind::shm;
  cluster.collective.sum.points = cluster.collective.copy.points = {{1, 1}};
  return cluster;
}

/// When `ranks` ranks have ended that each add up a million values, of which a time is known.
double ended(ClusterSpec cluster, int ranks, double memory) {
  const auto add = [](Device& device) {
    const auto made = [&] { return device.tensor({1000000}, MemoryKind::workspace); };
    return Add{.in = made(), .out = made()};
  };
  const auto alone = make_sim_device(cluster, nullptr, {0, 0}, nullptr);
  const OpCost cost = ringside::cost(add(*alone));
  cluster.timed = {{"a", "fp32", "elementwise", cost.operations, cost.bytes, 1000, memory}};
  const auto world = make_world(cluster);
  for (int r = 0; r < ranks; ++r)
    world->spawn("rank", {0, 0}, [&] {
      const auto device = make_sim_device(cluster, world.get(), {0, 0}, nullptr);
      device->kernels().add(add(*device));
      device->catch_up();
    });
  world->run();
  return world->now();
}

TEST(TimedOperations, RanksShareTheMemoryOfTheirProcessor) {
  constexpr double rounding = 1e-9;
  EXPECT_NEAR(ended(processor(4, 0), 2, 1), 1e-3, rounding) << "enough for all";
  EXPECT_NEAR(ended(processor(4, 1), 1, 1), 1e-3, rounding);
  EXPECT_NEAR(ended(processor(4, 1), 2, 1), 2e-3, rounding);
  EXPECT_NEAR(ended(processor(4, 1.5), 3, 1), 2e-3, rounding);
  EXPECT_NEAR(ended(processor(4, 1), 2, 0.5), 1e-3, rounding) << "half of the time for each";
  EXPECT_NEAR(ended(processor(4, 1), 4, 0.5), 2e-3, rounding);
  EXPECT_NEAR(ended(processor(1, 1), 2, 0.25), 2e-3, rounding) << "one core for two";
}

}  // namespace
}  // namespace ringside::sim
