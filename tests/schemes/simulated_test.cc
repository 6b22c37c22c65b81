// Every scheme of the registry in a simulated cluster.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "experiments/runner/run/simulation.h"
#include "peer/fsdp/fsdp.h"
#include "peer/schemes/ddp.h"
#include "peer/schemes/diloco.h"
#include "peer/schemes/local_sgd.h"
#include "ps/schemes/ps.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/simulated.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

using testing::run;
using testing::simulated;
using testing::small_cluster;
using testing::tiny;

RunRecord run_simulated(const RunPlan& plan) {
  return make_row(plan, simulate(plan, [](const Progress&) {}));
}

/// The degrees of fsdp, but zero3, which is the default of fsdp.
std::vector<testing::TriedScheme> degrees() {
  return {{&find_scheme("zero1")}, {&find_scheme("zero2")}};
}
std::vector<testing::TriedScheme> schemes() {
  std::vector<testing::TriedScheme> out = testing::tried_schemes();
  for (const testing::TriedScheme& one : degrees()) out.push_back(one);
  return out;
}

class SimulatedScheme : public testing::SchemeAtWorld {};
/// What the checks of every scheme (experiments/tools/check) do not try.
class SimulatedDegree : public testing::SchemeAtWorld {};

TEST_P(SimulatedDegree, WithNumericsEndsWithTheBitsOfTheCpu) {
  auto config = tiny("gpt");
  config.train.evaluate_every = 2;
  const RunRecord real = run(plan_of(config));
  config = simulated(config, small_cluster(4));
  config.sim.numerics = true;
  const RunRecord row = run_simulated(plan_of(config));
  EXPECT_EQ(row.parameter_hashes, real.parameter_hashes);
  EXPECT_EQ(row.loss, real.loss);
  ASSERT_EQ(row.evaluations.size(), real.evaluations.size());
  EXPECT_EQ(row.evaluations.back().loss, real.evaluations.back().loss);
}

TEST(SimulatedAlgorithms, EndWithTheBitsOfTheirDefinitionsBetweenMachines) {
  for (const Algorithm algorithm : {Algorithm::tree, Algorithm::hierarchical, Algorithm::automatic})
    for (const std::int64_t message_ranks : {8, 1}) {
      auto config = simulated(tiny("gpt"), small_cluster(2));
      config.cluster->machines = 2;
      config.sim.numerics = true;
      config.sim.message_ranks = message_ranks;
      config.scheme_options["ddp"] = peer::DdpOptions{.algorithm = algorithm};
      const RunPlan plan = plan_training(config, "ddp", 4);
      const RunRecord row = run_simulated(plan), definition = run_simulated(plan_definition(plan));
      EXPECT_EQ(row.parameter_hashes, definition.parameter_hashes) << name_of(algorithm);
      EXPECT_EQ(row.loss, definition.loss) << name_of(algorithm);
      if (algorithm != Algorithm::automatic) continue;
      ASSERT_FALSE(row.figures.empty()) << "it says what it has chosen";
      EXPECT_TRUE(row.figures[0].name.starts_with("buckets by ")) << row.figures[0].name;
    }
}

TEST(SimulatedAlgorithms, AutoSaysForFsdpWhatItTook) {
  auto config = simulated(tiny("gpt"), small_cluster(2));
  config.scheme_options["fsdp"] = peer::FsdpOptions{.algorithm = Algorithm::automatic};
  const RunRecord row = run_simulated(plan_training(config, "fsdp", 2));
  std::map<std::string, double> collectives;
  for (const auto& one : row.figures)
    collectives[one.name.substr(0, one.name.find(" by "))] += one.mean;
  EXPECT_EQ(collectives["reduce-scatters"], collectives["all-gathers"]);
  EXPECT_GT(collectives["all-gathers"], 0);
}

TEST(SimulatedAlgorithms, AutoIsNativeBetweenTheCoresOfACpu) {
  auto config = tiny("gpt");
  const RunRecord single = testing::reference_of(config, 4);
  config = simulated(std::move(config), small_cluster(1));
  sim::ClusterSpec& cluster = *config.cluster;
  cluster.topology = sim::Topology::pcie;
  cluster.device.kind = sim::DeviceKind::cpu;
  cluster.device.cores = 4;
  cluster.collective.kind = sim::CollectiveKind::shm;
  cluster.collective.sum.points = cluster.collective.copy.points = {{1, 0.5}};
  config.sim.numerics = true;
  config.scheme_options["ddp"] = peer::DdpOptions{.algorithm = Algorithm::automatic};
  const RunPlan plan = plan_training(config, "ddp", 4);
  EXPECT_FALSE(plan.sums.own_order);
  EXPECT_EQ(run_simulated(plan).parameter_hashes, single.parameter_hashes);
}

TEST_P(SimulatedScheme, TakesTheSameTimeAndMemoryWithoutNumerics) {
  auto config = simulated(tiny("gpt"), small_cluster(4));
  const RunRecord without = run_simulated(plan_of(config));
  EXPECT_TRUE(without.loss.empty());
  EXPECT_TRUE(without.parameter_hashes.empty());
  config.sim.numerics = true;
  const RunRecord with = run_simulated(plan_of(config));
  // The simulated clock of a process goes on from one world to the next, so the last bits of the
  // times differ.
  EXPECT_NEAR(without.step_ms.median, with.step_ms.median, 1e-9 * with.step_ms.median);
  ASSERT_EQ(without.ranks.size(), with.ranks.size());
  for (std::size_t r = 0; r < with.ranks.size(); ++r)
    EXPECT_EQ(without.ranks[r].at_peak, with.ranks[r].at_peak) << r;
}

TEST_P(SimulatedDegree, SendsAndHoldsWhatTheRealOneDoes) {
  const auto config = tiny("gpt");
  const RunRecord real = run(plan_of(config));
  const RunRecord row = run_simulated(plan_of(simulated(config, small_cluster(4))));
  ASSERT_EQ(row.ranks.size(), real.ranks.size());
  for (std::size_t r = 0; r < row.ranks.size(); ++r) {
    EXPECT_NEAR(row.ranks[r].bytes_sent_per_step, real.ranks[r].bytes_sent_per_step,
                0.01 * real.ranks[r].bytes_sent_per_step)
        << r;
    for (const MemoryKind kind :
         {MemoryKind::parameter, MemoryKind::gradient, MemoryKind::optimizer})
      EXPECT_EQ(row.ranks[r].at_peak[kind], real.ranks[r].at_peak[kind]) << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, SimulatedScheme,
                         ::testing::Combine(::testing::ValuesIn(schemes()),
                                            ::testing::Values(1, 2, 3, 4)),
                         testing::name_of_case);
INSTANTIATE_TEST_SUITE_P(Registry, SimulatedDegree,
                         ::testing::Combine(::testing::ValuesIn(degrees()),
                                            ::testing::Values(1, 2, 3, 4)),
                         testing::name_of_case);
INSTANTIATE_TEST_SUITE_P(Single, SimulatedDegree,
                         ::testing::Combine(::testing::Values(testing::TriedScheme{
                                                &find_scheme("single")}),
                                            ::testing::Values(1)),
                         testing::name_of_case);
INSTANTIATE_TEST_SUITE_P(Single, SimulatedScheme,
                         ::testing::Combine(::testing::Values(testing::TriedScheme{
                                                &find_scheme("single")}),
                                            ::testing::Values(1)),
                         testing::name_of_case);

TEST(SimulatedGroups, ShardAsThoseOfTheCpu) {
  auto config = tiny("gpt");
  config.scheme_options["fsdp"] =
      peer::FsdpOptions{.shard = peer::Shard::hybrid_shard, .shard_group = 2};
  const RunRecord real = run(plan_training(config, "fsdp", 4));
  config = simulated(config, small_cluster(4));
  config.sim.numerics = true;
  const RunRecord row = run_simulated(plan_training(config, "fsdp", 4));
  EXPECT_EQ(row.parameter_hashes, real.parameter_hashes);
  EXPECT_EQ(row.loss, real.loss);
  for (std::size_t r = 0; r < row.ranks.size(); ++r)
    EXPECT_NEAR(row.ranks[r].bytes_sent_per_step, real.ranks[r].bytes_sent_per_step,
                0.01 * real.ranks[r].bytes_sent_per_step);
}

/// A model whose gradients take about as long to send as to compute.
ExperimentConfig heavy(const sim::ClusterSpec& cluster) {
  auto config = simulated(tiny("gpt"), cluster);
  config.model = {.layers = 8, .heads = 8, .width = 512, .context = 128};
  config.train.global_batch = 16;
  return config;
}

TEST(SimulatedDp, EfficiencyFallsAsTheMastersLinkFills) {
  const auto config = heavy(small_cluster(8));
  double last = 1.01;
  double exposed = -1;
  const RunRecord single = run_simulated(plan_training(config, "single", 1));
  for (const int world : {1, 2, 4, 8}) {
    const RunRecord row = run_simulated(plan_training(config, "dp", world));
    const double efficiency = row.samples_per_s / single.samples_per_s / world;
    EXPECT_LT(efficiency, world == 1 ? last : 0.95 * last) << world;
    last = efficiency;
    EXPECT_NEAR(row.ranks[0].bytes_sent_per_step, (world - 1) * 4.0 * row.parameters,
                0.05 * world * 4.0 * row.parameters)
        << "the master sends the parameters to every other worker";
    EXPECT_GT(row.time_ms.exposed, exposed) << "and the workers wait";
    exposed = row.time_ms.exposed;
  }
}

TEST(SimulatedIndependent, HasMoreThroughputThanDdp) {
  for (const int world : {2, 4}) {
    auto cluster = small_cluster(world);
    cluster.peer.gbs = 0.5;  // so slow that ddp cannot hide its reductions behind backward
    const auto config = heavy(cluster);
    const RunRecord ddp = run_simulated(plan_training(config, "ddp", world));
    const RunRecord independent = run_simulated(plan_training(config, "independent", world));
    EXPECT_GT(independent.samples_per_s, 1.05 * ddp.samples_per_s) << world;
    EXPECT_EQ(independent.time_ms.exposed, 0) << world;
    EXPECT_GT(ddp.time_ms.exposed, 0) << world;
  }
}

TEST(SimulatedWorld, WantsAsManyDevicesAsWorkers) {
  const auto config = simulated(tiny("gpt"), small_cluster(2));
  try {
    plan_training(config, "ddp", 3);
    FAIL() << "planned";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("world 3 needs 3 devices"), std::string::npos)
        << error.what();
  }
}

TEST(SimulatedWorld, TheErrorOfAColocatedServerIsReported) {
  for (const char* scheme : {"dp", "ps"}) {
    auto config = heavy(small_cluster(2));
    config.scheme_options["ps"] =
        ps::PsOptions{.servers = 1, .placement = ps::Placement::colocated};
    // The replica and its activations fit; the optimizer's state does not.
    config.cluster->device.memory_gb = 0.3;
    try {
      run_simulated(plan_training(config, scheme, 2));
      ADD_FAILURE() << scheme << " fits";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("rank 0 (worker+server): sim gpu"),
                std::string::npos)
          << error.what();
      EXPECT_NE(std::string(error.what()).find("no memory for"), std::string::npos);
    }
  }
}

TEST(SimulatedWorld, WhatIsNotComputedHasNoLosses) {
  auto config = simulated(tiny("gpt"), small_cluster(2));
  config.train.evaluate_every = 2;
  const RunRecord row = run_simulated(plan_training(config, "ddp", 2));
  EXPECT_TRUE(row.loss.empty());
  EXPECT_TRUE(row.evaluations.empty());
}

TEST(SimulatedWorld, RanksBeyondTheCoresOfACpuDoNotSpeedItUp) {
  auto cluster = small_cluster(1);
  cluster.device.kind = sim::DeviceKind::cpu;
  cluster.device.cores = 2;
  cluster.collective = {.kind = sim::CollectiveKind::shm, .sum = {{{1, 1}}}, .copy = {{{1, 1}}}};
  const auto config = heavy(cluster);
  const auto step_ms = [&](int world) {
    return run_simulated(plan_training(config, "ddp", world)).step_ms.median;
  };
  const double alone = step_ms(1), two = step_ms(2), four = step_ms(4);
  EXPECT_NEAR(two, alone / 2, 0.1 * alone);
  EXPECT_GT(four, 0.95 * two);
}

/// Four machines on links of 50 and 200 Mb/s: what is left of a step is bytes over bandwidth.
TEST(SimulatedWorld, OnSlowNetworksTimeIsBytesOverBandwidth) {
  for (const double gbit_s : {0.05, 0.2}) {
    auto cluster = small_cluster(1);
    cluster.machines = 4;
    cluster.nic.gbs = gbit_s / 8;
    auto config = simulated(tiny("mlp"), cluster);
    config.model.width = 400;
    config.train.warmup = 8;
    config.train.steps = 24;
    config.sim.numerics = false;
    const auto expect_bound = [&](const char* scheme, Options options) {
      config.scheme_options[scheme] = std::move(options);
      const RunRecord row = run_simulated(plan_training(config, scheme, 4));
      const double expected = testing::busiest(row) / (cluster.nic.gbs * 1e9) * 1e3;
      EXPECT_NEAR(row.time_ms.exposed, expected, 0.02 * expected) << scheme << " at " << gbit_s;
    };
    expect_bound("ddp", default_options("ddp"));
    for (const std::int64_t every : {1, 8}) {
      expect_bound("local_sgd", peer::LocalSgdOptions{.sync_every = every});
      expect_bound("diloco", peer::DilocoOptions{.sync_every = every});
    }
  }
}

TEST(SimulatedWorld, OutOfMemoryNamesTheRankTheRequestAndItsOwners) {
  auto cluster = small_cluster(2);
  cluster.device.memory_gb = 0.001;
  try {
    run_simulated(plan_training(simulated(tiny("gpt"), cluster), "ddp", 2));
    auto config = heavy(cluster);
    run_simulated(plan_training(config, "ddp", 2));
    FAIL() << "it fits";
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const char* part : {"rank 0 (worker)", "no memory for", "parameter", "held"})
      EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  }
}

}  // namespace
}  // namespace ringside::runner
