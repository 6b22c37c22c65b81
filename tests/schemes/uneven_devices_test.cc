// Simulated clusters whose devices differ: several kinds, slow ones, and steps that vary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/sim/uneven.h"
#include "experiments/runner/plan/speeds.h"
#include "experiments/runner/run/simulation.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::reference_of;
using testing::small_cluster;
using testing::tiny;
using testing::violations;

/// Machines of one GPU each, on a network so fast that compute is nearly all of a step.
sim::ClusterSpec fast_network(std::int64_t machines) {
  sim::ClusterSpec cluster = small_cluster(1);
  cluster.machines = machines;
  cluster.device.launch_us = 0;
  cluster.pcie = {.gbs = 1e4, .latency_us = 0.01, .step_us = 0.01};
  cluster.nic = cluster.peer = cluster.pcie;
  cluster.collective.base_us = 0;
  cluster.message = {};
  return cluster;
}

/// A device with a part of the speed of another.
sim::DeviceSpec slower(sim::DeviceSpec device, double share) {
  device.name = "slower";
  device.bandwidth_gbs *= share;
  device.tflops["fp32"] *= share;
  return device;
}

/// Machine 0 has the device of fast_network(), machine 1 another with a third of the speed.
sim::ClusterSpec two_kinds() {
  sim::ClusterSpec cluster = fast_network(2);
  cluster.others = {{.first = 1, .count = 1, .device = slower(cluster.device, 1.0 / 3)}};
  return cluster;
}

/// A step whose time is nearly all forward and backward.
ExperimentConfig simulated(const sim::ClusterSpec& cluster, std::int64_t batch = 96) {
  auto config = tiny("gpt");
  config.model.width = 64;
  config.model.context = 64;
  config.train.global_batch = batch;
  config.optimizer = {.kind = "sgd"};
  config.device.kind = "sim";
  config.cluster = cluster;
  return config;
}

RunRecord run_uneven(const ExperimentConfig& config, const std::string& scheme, int world) {
  const RunPlan plan = plan_training(config, scheme, world);
  return make_row(plan, simulate(plan, [](const Progress&) {}));
}

/// Samples a second of one device alone.
double speed_of(const sim::DeviceSpec& device, std::int64_t batch) {
  sim::ClusterSpec cluster = fast_network(1);
  cluster.device = device;
  return run_uneven(simulated(cluster, batch), "single", 1).samples_per_s;
}

TEST(DevicesOfTwoKinds, WaitForTheSlowOneWithEqualShares) {
  const sim::ClusterSpec cluster = two_kinds();
  const double slow = speed_of(cluster.others[0].device, 48);
  ASSERT_NEAR(speed_of(cluster.device, 48), 3 * slow, 0.01 * slow);
  for (const char* scheme : {"ddp", "zero1", "fsdp", "dp", "ps"})
    EXPECT_NEAR(run_uneven(simulated(cluster), scheme, 2).samples_per_s, 2 * slow, 0.05 * slow)
        << scheme;
}

TEST(DevicesOfTwoKinds, AddUpTheirSpeedsWithSharesBySpeed) {
  const sim::ClusterSpec cluster = two_kinds();
  auto config = simulated(cluster);
  config.train.shares = Shares::speed;
  EXPECT_THAT(plan_training(config, "ddp", 2).train.weights, ElementsAre(72, 24));
  const double together = speed_of(cluster.device, 72) + speed_of(cluster.others[0].device, 24);
  for (const char* scheme : {"ddp", "zero1", "fsdp", "dp", "ps"})
    EXPECT_NEAR(run_uneven(config, scheme, 2).samples_per_s, together, 0.04 * together) << scheme;
  config.train.global_batch = 10;  // 7.5 and 2.5: 8 of the fast one are as long as 2.67 of the slow
  EXPECT_THAT(plan_training(config, "ddp", 2).train.weights, ElementsAre(8, 2));
  config.train.global_batch = 2;
  EXPECT_THAT(plan_training(config, "ddp", 2).train.weights, IsEmpty()) << "one sample for each";
}

/// Shares follow from the time that a run's own forward and backward take.
TEST(DevicesOfTwoKinds, AreTimedWithWhatARunMakesAgain) {
  std::vector<double> times, others;  // others: what else a step of one device computes
  for (const Recompute recompute : {Recompute::none, Recompute::attention, Recompute::full}) {
    auto config = simulated(fast_network(1), 8);
    config.train.recompute = recompute;
    const RunPlan plan = plan_training(config, "single", 1);
    times.push_back(1e3 * MicroBatchTimes(plan).seconds(0, 8));
    others.push_back(run_uneven(config, "single", 1).time_ms.compute - times.back());
    EXPECT_NEAR(others.back(), others[0], 1e-9 * times[0]) << name_of(recompute);
  }
  EXPECT_LT(others[0], 0.03 * times[0]);
  EXPECT_LT(1.03 * times[0], times[1]);
  EXPECT_LT(1.03 * times[1], times[2]);
}

TEST(DevicesOfTwoKinds, TrainWithTheBitsOfSingleOverTheSameShares) {
  auto config = simulated(two_kinds(), 30);
  config.train.micro_batch = 9;  // 2 micro-batches of 15 would give the fast device 12
  config.model.width = 24;
  config.model.context = 8;
  config.sim.numerics = true;
  config.train.shares = Shares::speed;
  config.train.evaluate_every = 2;
  const RunPlan plan = plan_training(config, "ddp", 2);
  const RunRecord row = make_row(plan, simulate(plan, [](const Progress&) {}));
  EXPECT_EQ(plan.train.accumulation, 3);
  ASSERT_THAT(plan.train.weights, ElementsAre(8, 2));
  const RunPlan reference = plan_single_for({plan, &config});
  EXPECT_TRUE(must_equal(plan, reference));
  const RunRecord single = make_row(reference, simulate(reference, [](const Progress&) {}));
  EXPECT_THAT(violations(row, single), IsEmpty());
}

TEST(DevicesOfTwoKinds, MustBothKnowTheDtype) {
  auto cluster = two_kinds();
  cluster.others[0].device.tflops.erase("bf16");
  cluster.others[0].device.efficiency.erase("bf16");
  auto config = simulated(cluster);
  config.train.precision = Precision::bf16;
  EXPECT_NO_THROW(plan_training(config, "ddp", 1));
  try {
    plan_training(config, "ddp", 2);
    ADD_FAILURE() << "worker 1 cannot compute in bf16";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no tflops.bf16 for its device slower"));
  }
}

TEST(ASlowDevice, TakesLongerByItsFactorExactly) {
  sim::ClusterSpec cluster = small_cluster(2);
  const RunRecord even = run_uneven(simulated(cluster), "single", 1);
  cluster.slow = {{.machine = 0, .device = 0, .factor = 1.5}, {.machine = 0, .factor = 2}};
  const RunRecord slow = run_uneven(simulated(cluster), "single", 1);
  EXPECT_NEAR(slow.step_ms.median, 3 * even.step_ms.median, 1e-9 * slow.step_ms.median);
  cluster.slow = {{.machine = 0, .device = 1, .factor = 1.5}};
  const RunRecord other = run_uneven(simulated(cluster), "single", 1);
  EXPECT_NEAR(other.step_ms.median, even.step_ms.median, 1e-9 * even.step_ms.median);
}

TEST(ASlowDevice, HoldsUpAllOthers) {
  sim::ClusterSpec one = fast_network(4), all = one;
  one.slow = {{.machine = 2, .factor = 2}};
  for (int machine = 0; machine < 4; ++machine)
    all.slow.push_back({.machine = machine, .factor = 2});
  for (const char* scheme : {"ddp", "fsdp", "ps"}) {
    const double expected = run_uneven(simulated(all), scheme, 4).step_ms.median;
    EXPECT_NEAR(run_uneven(simulated(one), scheme, 4).step_ms.median, expected, 0.02 * expected)
        << scheme;
  }
}

TEST(ASlowDevice, OfACpuHoldsUpTheSumsToo) {
  sim::ClusterSpec cluster = small_cluster(2);
  cluster.topology = sim::Topology::pcie;
  cluster.device.kind = sim::DeviceKind::cpu;
  cluster.collective.kind = sim::CollectiveKind::shm;
  cluster.collective.sum.points = cluster.collective.copy.points = {{1, 0.5}};
  const auto exposed = [&](std::vector<sim::SlowDevice> slow) {
    cluster.slow = std::move(slow);
    auto config = simulated(cluster, 2);
    config.model.width = 256;
    return run_uneven(config, "ddp", 2).step_ms.median;
  };
  const double both = exposed({{.machine = 0, .factor = 4}});
  EXPECT_NEAR(exposed({{.machine = 0, .device = 1, .factor = 4}}), both, 0.02 * both);
  EXPECT_GT(both, 3.5 * exposed({}));
}

TEST(Jitter, OfOneSeedGivesTheSameTimes) {
  auto config = simulated(fast_network(2));
  config.sim.jitter = 0.2;
  const auto times = [&](std::int64_t seed) {
    config.train.seed = seed;
    std::vector<double> out;
    for (const RankRecord& rank : run_uneven(config, "ddp", 2).ranks)
      for (const StepTime& step : rank.steps) out.push_back(step.total);
    return out;
  };
  const std::vector<double> first = times(1), again = times(1), other = times(2);
  ASSERT_EQ(first.size(), again.size());
  for (std::size_t s = 0; s < first.size(); ++s) {
    EXPECT_NEAR(first[s], again[s], 1e-9 * first[s]);
    EXPECT_GT(std::abs(first[s] - other[s]), 1e-3 * first[s]);
  }
}

/// The mean over steps of the largest factor among the first `world` devices.
double mean_of_largest(double sigma, int world, std::int64_t steps) {
  double sum = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    double largest = 0;
    for (int device = 0; device < world; ++device)
      largest = std::max(largest, sim::jitter_factor(sigma, 1, device, step));
    sum += largest;
  }
  return sum / static_cast<double>(steps);
}

TEST(Jitter, CostsTheSlowestOfEachStepMoreTheMoreThereAre) {
  constexpr double sigma = 0.2;
  constexpr std::int64_t steps = 40;
  double before = 0;
  for (const int world : {1, 2, 4, 8}) {
    auto config = simulated(fast_network(8), 8 * world);
    config.train.steps = steps;
    config.train.warmup = 0;
    const double even = run_uneven(config, "ddp", world).samples_per_s;
    config.sim.jitter = sigma;
    const double slowdown = even / run_uneven(config, "ddp", world).samples_per_s;
    EXPECT_NEAR(slowdown, mean_of_largest(sigma, world, steps), 0.02) << world;
    if (world > 1) {
      EXPECT_GT(slowdown, before + 0.03) << world;
    }
    before = slowdown;
  }
}

}  // namespace
}  // namespace ringside::runner
