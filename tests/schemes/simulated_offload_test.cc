// train.offload in a simulated cluster: its bits, and its time against that of its pipeline.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/device/cost.h"
#include "core/device/sim/sim_device.h"
#include "experiments/runner/run/simulation.h"
#include "peer/fsdp/fsdp.h"
#include "tests/schemes/simulated.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/complaint.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

using testing::run;
using testing::simulated;
using testing::small_cluster;
using testing::tiny;

RunRecord run_offloaded(const ExperimentConfig& config, const std::string& scheme, int world) {
  const RunPlan plan = plan_training(config, scheme, world);
  return make_row(plan, simulate(plan, [](const Progress&) {}));
}

struct OffloadedRun {
  const char* scheme;
  int world;
  Offload offload;
};

std::string name_of_offloaded_run(const ::testing::TestParamInfo<OffloadedRun>& info) {
  const auto& [scheme, world, offload] = info.param;
  return fmt::format("{}_world_{}_{}", scheme, world, name_of(offload));
}

class SimulatedOffload : public ::testing::TestWithParam<OffloadedRun> {};

INSTANTIATE_TEST_SUITE_P(Schemes, SimulatedOffload,
                         ::testing::Values(OffloadedRun{"single", 1, Offload::optimizer},
                                           OffloadedRun{"ddp", 2, Offload::optimizer},
                                           OffloadedRun{"zero2", 3, Offload::optimizer},
                                           OffloadedRun{"zero3", 1, Offload::parameters},
                                           OffloadedRun{"zero3", 2, Offload::parameters}),
                         name_of_offloaded_run);

TEST_P(SimulatedOffload, EndsWithTheBitsOfTheCpuAndTakesTheSameTimeWithoutNumerics) {
  const auto& [scheme, world, offload] = GetParam();
  for (const double clip_norm : {0.0, 0.5}) {
    auto config = tiny("gpt");
    config.model.tied = true;
    config.train.steps = 3;
    config.optimizer.clip_norm = clip_norm;
    const RunRecord real = run(plan_training(config, scheme, world));
    config = simulated(config, small_cluster(4));
    config.train.offload = offload;
    const RunRecord without = run_offloaded(config, scheme, world);
    config.sim.numerics = true;
    const RunRecord with = run_offloaded(config, scheme, world);
    EXPECT_EQ(with.parameter_hashes, real.parameter_hashes);
    EXPECT_EQ(with.loss, real.loss);
    // Without values there is no norm to clip by; the time is the same.
    EXPECT_NEAR(without.step_ms.median, with.step_ms.median, 1e-6 * with.step_ms.median);
    for (std::size_t r = 0; r < with.ranks.size(); ++r) {
      EXPECT_EQ(without.ranks[r].at_peak, with.ranks[r].at_peak);
      EXPECT_EQ(without.ranks[r].host_memory.value().at_peak,
                with.ranks[r].host_memory.value().at_peak);
    }
  }
}

/// A GPU that computes in no time, behind a slow PCIe.
sim::ClusterSpec slow_way(std::int64_t devices) {
  sim::ClusterSpec cluster = small_cluster(devices);
  cluster.device.launch_us = 0;
  cluster.device.tflops["fp32"] = 1e9;
  cluster.device.bandwidth_gbs = 1e9;
  cluster.pcie = {.gbs = 0.1, .latency_us = 10};
  return cluster;
}

/// The seconds of a step in which only copies and updates take time. A unit's gradients go to the
/// host after those of the unit above, are then updated, and the parameters go back.
double seconds_of_pipeline(const RunPlan& plan, double gbs) {
  const sim::ClusterSpec& cluster = *plan.cluster;
  const auto device = find_device("sim").make(plan, 0, nullptr);
  const Model model = make_model(plan.model, *device);
  double fetched = 0, updated = 0, stored = 0;
  for (std::size_t u = model.units.size(); u-- > 0;) {
    const Tensor all = device->tensor({model.units[u]->layout().count()}, MemoryKind::workspace);
    const double copy =
        1e-6 * cluster.pcie.latency_us + static_cast<double>(all.bytes()) / (1e9 * gbs);
    const double update =
        sim::seconds_of(
            cost(AdamW{
                .parameters = all, .gradients = all, .first_moment = all, .second_moment = all}),
            cluster.host) /
        static_cast<double>(cluster.host.cores);
    fetched += copy;
    updated = std::max(updated, fetched) + update;
    stored = std::max(stored, updated) + copy;
  }
  return stored;
}

double seconds_of_step(const RunRecord& row) {
  return static_cast<double>(row.plan.train.global_batch) / row.samples_per_s;
}

TEST(SimulatedOffloadTime, IsThatOfThePipelineWhereOnlyTheHostTakesTime) {
  auto config = simulated(tiny("mlp"), slow_way(2));
  config.train.offload = Offload::optimizer;
  const RunRecord row = run_offloaded(config, "single", 1);
  const double expected = seconds_of_pipeline(row.plan, 0.1);
  EXPECT_NEAR(seconds_of_step(row), expected, 1e-4 * expected);
  // Nearly all of it is waiting.
  EXPECT_NEAR(row.time_ms.exposed, 1e3 * expected, 1e-2 * 1e3 * expected);
  EXPECT_GT(row.time_ms.communication, 0.5e3 * expected);
  EXPECT_GT(row.time_ms.serving_optimizer, 0);
}

TEST(SimulatedOffloadTime, GpusUnderOnePcieRootShareIt) {
  auto config = simulated(tiny("mlp"), slow_way(2));
  config.train.offload = Offload::optimizer;
  config.scheme_options["fsdp"] = peer::FsdpOptions{.shard = peer::Shard::no_shard};
  const RunRecord apart = run_offloaded(config, "fsdp", 2);
  config.cluster->pcie_root_gbs = 0.1;
  const RunRecord together = run_offloaded(config, "fsdp", 2);
  // All-reduces take some microseconds besides.
  const double alone = seconds_of_pipeline(apart.plan, 0.1);
  const double shared = seconds_of_pipeline(together.plan, 0.05);
  EXPECT_NEAR(seconds_of_step(apart), alone, 0.05 * alone);
  EXPECT_NEAR(seconds_of_step(together), shared, 0.05 * shared);
}

TEST(SimulatedOffloadTime, CopiesAndUpdatesHideBehindBackward) {
  auto config = simulated(tiny("gpt"), small_cluster(2));
  config.model = {.layers = 8, .heads = 8, .width = 512, .context = 128};
  config.train.global_batch = 16;
  const RunRecord without = run_offloaded(config, "ddp", 2);
  config.train.offload = Offload::optimizer;
  const RunRecord with = run_offloaded(config, "ddp", 2);
  const double moved = with.time_ms.communication - without.time_ms.communication;
  EXPECT_GT(moved, 0);
  EXPECT_LT(with.time_ms.exposed - without.time_ms.exposed,
            0.7 * (moved + with.time_ms.serving_optimizer));
}

/// Clipping lets no update begin before backward has ended. The next forward then goes on unit by
/// unit, as updates end, whether units are kept whole (zero1, zero2) or in shards (zero3).
TEST(SimulatedOffloadTime, ForwardBeginsWithTheFirstUnitThatIsUpdated) {
  sim::ClusterSpec cluster = small_cluster(2);
  cluster.host.bandwidth_gbs /= 20;
  auto config = simulated(tiny("gpt"), cluster);
  config.model = {.layers = 8, .heads = 8, .width = 512, .context = 128};
  config.train.global_batch = 16;
  config.train.offload = Offload::optimizer;
  config.optimizer.clip_norm = 1;
  for (const char* scheme : {"zero1", "zero2", "zero3"}) {
    const RunRecord row = run_offloaded(config, scheme, 2);
    EXPECT_GT(row.time_ms.serving_optimizer, 0.1 * row.step_ms.median);
    EXPECT_LT(row.time_ms.exposed, 0.6 * row.time_ms.serving_optimizer) << scheme;
  }
}

TEST(SimulatedOffloadMemory, OfTheHostMustHoldAllRanksOfItsMachine) {
  auto config = simulated(tiny("mlp"), small_cluster(2));
  config.train.offload = Offload::optimizer;
  const RunRecord row = run_offloaded(config, "ddp", 2);
  const double one = static_cast<double>(row.ranks[0].host_memory.value().at_peak.total());
  config.cluster->host.memory_gb = 1.5 * one / 1e9;
  const std::string error = testing::complaint([&] { run_offloaded(config, "ddp", 2); });
  EXPECT_NE(error.find("host): no memory for"), std::string::npos) << error;
}

}  // namespace
}  // namespace ringside::runner
