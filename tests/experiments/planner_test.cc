#include "experiments/runner/plan/planner.h"
#include "core/plan/places.h"
#include "core/plan/same_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/error.h"
#include "core/models/presets.h"
#include "core/optim/optimizer_config.h"
#include "core/scheme/single.h"
#include "experiments/runner/plan/checks.h"
#include "experiments/runner/registry/mpi_of.h"
#include "peer/fsdp/fsdp.h"
#include "peer/schemes/ddp.h"
#include "ps/schemes/dp.h"
#include "ps/schemes/ps.h"
#include "tests/experiments/made_up_rows.h"
#include "tests/support/complaint.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

using testing::complaint;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ExperimentConfig experiment() {
  ExperimentConfig config;
  config.name = "trial";
  config.train.global_batch = 16;
  config.train.micro_batch = 8;
  config.compare.repeats = 2;
  return config;
}

std::vector<std::string> ids(const std::vector<RunPlan>& runs) {
  std::vector<std::string> out;
  for (const RunPlan& run : runs) out.push_back(run.id);
  return out;
}

std::string complaint(const ExperimentConfig& config) {
  return complaint([&] { plan_comparison(config); });
}

TEST(Planner, InterleavesTheRepeats) {
  auto config = experiment();
  config.compare.schemes = {"single", "ddp"};
  config.compare.worlds = {1, 2};
  EXPECT_THAT(ids(plan_comparison(config)), ElementsAre("single-w1-r0", "ddp-w1-r0", "ddp-w2-r0",
                                                        "single-w1-r1", "ddp-w1-r1", "ddp-w2-r1"));
}

std::vector<std::string> ids_as_made(std::vector<RunPlan> runs) {
  std::sort(runs.begin(), runs.end(),
            [](const RunPlan& a, const RunPlan& b) { return a.listing.place < b.listing.place; });
  for (std::size_t i = 0; i < runs.size(); ++i)
    EXPECT_EQ(runs[i].listing.place, static_cast<int>(i));
  return ids(runs);
}

TEST(Planner, ShufflesTheRunsOfARepeat) {
  auto config = experiment();
  // World 2 needs references of its own: single, and the definition of fsdp, which adds up over
  // ranks after every micro-batch.
  config.train.micro_batch = 4;
  config.compare.schemes = {"single", "dp", "ps", "ddp", "fsdp"};
  config.compare.worlds = {1, 2};
  config.compare.repeats = 5;
  const auto runs = plan_comparison(config);
  const auto made = ids_as_made(runs);
  EXPECT_EQ(made[0], "single-x2-r0") << "a reference first: it warms the machine up";
  std::vector<int> place_of_single;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto begin = made.begin() + 2 + 9 * repeat;
    for (auto id = begin; id < begin + 9; ++id)
      EXPECT_EQ(id->back(), static_cast<char>('0' + repeat)) << *id;
    const auto single = std::find(begin, begin + 9, "single-w1-r" + std::to_string(repeat));
    place_of_single.push_back(static_cast<int>(single - begin));
  }
  EXPECT_GT(std::set<int>(place_of_single.begin(), place_of_single.end()).size(), 1u);
  EXPECT_EQ(ids_as_made(plan_comparison(config)), made) << "by train.seed";
  config.train.seed = 2;
  EXPECT_NE(ids_as_made(plan_comparison(config)), made);
  // The repeats of a case share a line of the table. They are one case although they are made at
  // different places in the order.
  EXPECT_EQ(runs[2].listing.line, runs[11].listing.line);
  EXPECT_TRUE(same_case(runs[2], runs[11]));
}

TEST(Planner, SingleOnAllCoresStandsBesideTheLargestWorld) {
  auto config = experiment();
  config.compare.schemes = {"single", "ddp"};
  config.compare.worlds = {1, 4};
  config.compare.repeats = 2;
  const auto on_all = [&](int cores) {
    std::vector<RunPlan> out;
    for (const RunPlan& run : plan_comparison(config, cores))
      if (run.purpose == Purpose::all_cores) out.push_back(run);
    return out;
  };
  const auto runs = on_all(16);
  ASSERT_THAT(ids(runs), ElementsAre("single-t4-r0", "single-t4-r1"));
  EXPECT_EQ(runs[0].listing.label, "single (4 threads)");
  EXPECT_EQ(runs[0].device.threads, 4);
  EXPECT_EQ(runs[0].world, 1);
  EXPECT_EQ(on_all(3).at(0).device.threads, 3) << "one a core";
  config.device.threads = 2;
  EXPECT_EQ(on_all(16).at(0).device.threads, 8);
  EXPECT_TRUE(on_all(2).empty()) << "single has them all anyway";
  EXPECT_TRUE(on_all(0).empty()) << "nobody knows how many there are";
  config.compare.all_cores = false;
  EXPECT_TRUE(on_all(16).empty());
  config.compare.all_cores = true;
  config.compare.schemes = {"ddp"};
  EXPECT_TRUE(on_all(16).empty()) << "single was not asked for";
}

TEST(Planner, QuickstartNeedsNoReferenceButSingle) {
  auto config = experiment();
  config.compare.repeats = 3;
  const auto runs = plan_comparison(config);
  EXPECT_EQ(runs.size(), 27u);
  for (const RunPlan& run : runs)
    EXPECT_EQ(run.sums, (SumTree{1, 2, config.optimizer.lr})) << run.id;
}

TEST(Planner, SplitsTheShareIntoEqualMicroBatches) {
  auto config = experiment();
  config.train.global_batch = 24;
  config.train.micro_batch = 4;
  const RunPlan one = plan_training(config, "ddp", 1), two = plan_training(config, "ddp", 2);
  EXPECT_EQ(one.train.accumulation, 6);
  EXPECT_EQ(one.train.micro_batch, 4);
  EXPECT_EQ(two.train.accumulation, 3);
  config.train.accumulation = 6;
  EXPECT_EQ(plan_training(config, "ddp", 2).train.micro_batch, 2);
  config.train.accumulation = 1;
  config.train.micro_batch = 0;
  EXPECT_EQ(plan_training(config, "ddp", 2).train.accumulation, 1);
  EXPECT_EQ(plan_training(config, "ddp", 2).train.micro_batch, 12);
}

TEST(Planner, AddsTheReferencesThatAreMissing) {
  auto config = experiment();
  config.train.micro_batch = 4;  // 4 micro-batches in a step; at world 2 each rank has 2
  config.compare.schemes = {"single", "ddp"};
  config.compare.worlds = {1, 2, 4};
  const auto runs = plan_comparison(config);
  // At world 4 each rank has one micro-batch, so the sum is a plain sequence, as at world 1. Only
  // world 2 needs a reference.
  EXPECT_THAT(ids({runs.begin(), runs.begin() + 3}),
              ElementsAre("single-x2-r0", "single-w1-r0", "ddp-w1-r0"));
  EXPECT_EQ(runs.size(), 1u + 2 * 4);
  EXPECT_EQ(runs[0].world, 1);
  EXPECT_EQ(runs[0].options.as<SingleOptions>().replicas, 2);
  EXPECT_EQ(runs[0].train.accumulation, 4);
  EXPECT_EQ(runs[0].train.micro_batch, 4);
  EXPECT_EQ(runs[0].sums, (SumTree{2, 2, config.optimizer.lr}));
  EXPECT_EQ(runs[0].listing.label, "single x2");
}

TEST(Planner, EveryRunHasAReference) {
  for (const std::int64_t micro_batch : {0, 1, 2, 4, 8, 16})
    for (const auto& schemes :
         {std::vector<std::string>{"ddp"}, {"ps", "single"}, {"single", "fsdp"}}) {
      auto config = experiment();
      config.train.micro_batch = micro_batch;
      config.compare.schemes = schemes;
      config.compare.worlds = {1, 2, 4, 16};
      const auto runs = plan_comparison(config);
      for (const RunPlan& run : runs)
        EXPECT_TRUE(std::any_of(runs.begin(), runs.end(), [&](const RunPlan& other) {
          // A definition with an order of sums of its own is held against `single`.
          return run.defines > 0 ? equals_to_rounding(run, other) : must_equal(run, other);
        })) << run.id;
    }
}

TEST(Planner, ReferencesHaveTheLearningRateOfTheRanksThatTheyStandFor) {
  auto config = experiment();
  config.model.kind = "resnet";
  config.data.kind = "synthetic-images";
  config.optimizer.lr = 0.1;
  config.train.micro_batch = 2;
  config.compare.schemes = {"single", "ddp"};
  config.compare.worlds = {8};
  config.compare.repeats = 1;
  const auto peak = [](const RunPlan& run) { return run.sums.lr; };
  for (const std::int64_t group : {1, 2, 8}) {
    config.model.batch_norm_group = group;
    for (const auto& [scaling, lr] : {std::pair{LrScaling::none, 0.1},
                                      {LrScaling::sqrt, 0.1 * std::sqrt(8.0)},
                                      {LrScaling::linear, 0.1 * 8}}) {
      config.optimizer.lr_scaling = scaling;
      const auto runs = plan_comparison(config);
      EXPECT_EQ(peak(runs.back()), lr);
      EXPECT_EQ(std::count_if(runs.begin(), runs.end(),
                              [&](const RunPlan& run) {
                                return run.scheme == "single" && must_equal(runs.back(), run);
                              }),
                1)
          << name_of(scaling) << ", groups of " << group;
    }
    config.optimizer.lr_scaling = LrScaling::sqrt;
    const auto runs = plan_comparison(config);
    const RunPlan& reference = runs.front();
    const auto replicas = reference.options.as<SingleOptions>().replicas;
    EXPECT_EQ(replicas, 8);
    EXPECT_EQ(reference.model.batch_norm_group, group);
    EXPECT_EQ(learning_rate(reference.optimizer, 0, {10, replicas}),
              learning_rate(runs.back().optimizer, 0, {10, 8}));
  }
}

TEST(Planner, GradientsAreReducedAsTheSchemeDoesUnlessTold) {
  auto config = experiment();
  const auto reduce = [&](Reduce asked, const char* scheme) {
    config.train.reduce = asked;
    return plan_training(config, scheme, scheme == std::string("single") ? 1 : 2).train.reduce;
  };
  for (const char* scheme : {"single", "ddp", "ps", "dp"})
    EXPECT_EQ(reduce(Reduce::by_scheme, scheme), Reduce::last);
  EXPECT_EQ(reduce(Reduce::by_scheme, "fsdp"), Reduce::every);
  for (const char* scheme : {"ddp", "fsdp", "ps", "dp"})
    for (const Reduce asked : {Reduce::last, Reduce::every})
      EXPECT_EQ(reduce(asked, scheme), asked) << scheme;
  EXPECT_EQ(reduce(Reduce::every, "single"), Reduce::last) << "there is nobody to reduce with";
}

TEST(Planner, BatchNormsOfRanksAreThoseOfSingleWithTheSameGroups) {
  auto config = experiment();
  norm_in_groups(config, 2);
  config.train.micro_batch = 4;
  config.compare.schemes = {"ddp"};
  config.compare.worlds = {4};
  config.compare.repeats = 1;
  const auto runs = plan_comparison(config);
  ASSERT_THAT(ids(runs), ElementsAre("single-x4-g2-r0", "ddp-w4-r0"));
  EXPECT_EQ(runs[1].train.micro_batch, 4);
  EXPECT_EQ(runs[0].train.micro_batch, 4) << "the samples of one rank";
  EXPECT_EQ(runs[0].train.accumulation, 4);
  EXPECT_EQ(runs[0].model.batch_norm_group, 2);
  EXPECT_TRUE(must_equal(runs[1], runs[0]));
  RunPlan other = runs[0];
  other.model.batch_norm_group = 1;
  EXPECT_FALSE(must_equal(runs[1], other)) << "its norms take other samples together";
  EXPECT_EQ(runs[0].sums, runs[1].sums);
  EXPECT_EQ(plan_training(config, "ddp", 1).model.batch_norm_group, 1) << "there is one rank";

  config.model.batch_norm_group = 3;
  EXPECT_THAT(complaint(config), HasSubstr("model.batch_norm_group = 3 does not divide world 4"));
  config.model.batch_norm_group = 0;
  EXPECT_THAT(complaint(config), HasSubstr("model.batch_norm_group = 0 must be more than 0"));
  config.model.batch_norm_group = 2;
  config.train.micro_batch = 2;
  EXPECT_THAT(complaint(config),
              HasSubstr("a rank has 2 micro-batches in a step; raise train.micro_batch to 4"));
  config.model.kind = "gpt";
  EXPECT_THAT(complaint(config), HasSubstr("model 'gpt' has no batch norms"));
}

TEST(Planner, ALibraryAddsUpInAnUnknownOrder) {
  auto config = experiment();
  config.compare.schemes = {"ddp"};
  config.compare.worlds = {2, 4};
  config.train.micro_batch = 4;
  config.scheme_options["ddp"] = peer::DdpOptions{.algorithm = Algorithm::library};
  const auto runs = plan_comparison(config);
  ASSERT_THAT(ids(runs),
              ElementsAre("single-x2-r0", "ddp-w2-r0", "ddp-w4-r0", "ddp-w2-r1", "ddp-w4-r1"))
      << "one reference does for all";
  for (const RunPlan& run : runs) {
    EXPECT_EQ(run.sums.unknown_order, run.scheme == "ddp");
    EXPECT_FALSE(must_equal(run, runs[0]) && run.scheme == "ddp");
    EXPECT_TRUE(equals_to_rounding(run, runs[0]));
    EXPECT_EQ(run_plan_from_json(nlohmann::json(to_json(run)), default_options), run);
  }
  EXPECT_THAT(complaint([&] { check_libraries(runs); }),
              HasSubstr("run ddp-w2-r0: scheme.ddp.algorithm = 'library' is for workers on "
                        "several hosts, and these share one"));
  config.device.kind = "sim";
  config.cluster = testing::small_cluster(2);
  EXPECT_THAT(complaint(config), HasSubstr("it is not simulated"));
  config.compare.worlds = {1};
  EXPECT_EQ(complaint(config), "nothing") << "one rank has nothing to add up";
  config.compare.worlds = {2, 4};
  config.device.kind = "cpu";
  config.cluster.reset();
  config.compare.schemes = {"fsdp"};
  config.scheme_options["fsdp"] = peer::FsdpOptions{.algorithm = Algorithm::library};
  EXPECT_THAT(complaint(config), HasSubstr("scheme.fsdp.algorithm = 'library': libraries between "
                                           "hosts take the place of all-reduces alone"));
}

TEST(Planner, ModelsWithoutAttentionHaveNothingOfItToRecompute) {
  auto config = experiment();
  config.train.recompute = Recompute::attention;
  for (const ModelInfo& row : models()) {
    config.model.kind = row.name;
    const bool refused = complaint([&] {
                           plan_training(config, "ddp", 2);
                         }).starts_with("train.recompute = 'attention'");
    EXPECT_EQ(refused, !row.attention) << row.name;
  }
  config.model.kind = "vgg";
  EXPECT_THAT(complaint(config),
              HasSubstr("model 'vgg' has no attention; choose 'none' or 'full'"));
}

TEST(Planner, ReferencesOfBatchNormGroupsAreRunsOfTheirOwn) {
  auto config = experiment();
  norm_in_groups(config, 8);
  config.optimizer.lr_scaling = LrScaling::linear;
  config.compare.schemes = {"single", "ddp"};
  config.compare.worlds = {1, 2, 4};
  config.compare.repeats = 2;
  const auto runs = plan_comparison(config);
  ASSERT_THAT(ids({runs.begin(), runs.begin() + 3}),
              ElementsAre("single-x2-g2-r0", "single-x4-g4-r0", "single-w1-r0"));
  EXPECT_EQ(runs[0].listing.label, "single x2 (norms of 2)");
  EXPECT_EQ(runs[0].purpose, Purpose::reference);
  EXPECT_EQ(runs[2].listing.label, "single");
  EXPECT_EQ(runs[2].purpose, Purpose::asked);
  for (const RunPlan& run : runs)
    for (const RunPlan& other : runs)
      EXPECT_EQ(same_case(run, other),
                run.listing.label == other.listing.label && run.world == other.world)
          << run.id << ", " << other.id;
}

TEST(Planner, RunsOfOneCaseDifferInRepeatAndNameAlone) {
  auto config = experiment();
  const RunPlan plan = plan_training(config, "ddp", 2);
  RunPlan other = plan;
  other.id = "another";
  other.repeat = 1;
  other.save = "weights.safetensors";
  EXPECT_TRUE(same_case(plan, other));
  config.train.accumulation = 2;
  EXPECT_FALSE(same_case(plan, plan_training(config, "ddp", 2)));
  config = experiment();
  config.optimizer.lr *= 2;
  EXPECT_FALSE(same_case(plan, plan_training(config, "ddp", 2)));
}

TEST(Planner, SingleRunsAtWorldOneAlone) {
  auto config = experiment();
  config.compare.schemes = {"single"};
  config.compare.worlds = {2, 4};
  config.compare.repeats = 1;
  EXPECT_THAT(ids(plan_comparison(config)), ElementsAre("single-w1-r0"));
  EXPECT_THAT(complaint([&] { plan_training(config, "single", 2); }),
              HasSubstr("scheme single runs at world 1 at most, not at 2"));
}

TEST(Planner, PlacesWorkersFirstAndServersAfterThemOrColocated) {
  auto config = experiment();
  config.scheme_options["ps"] = ps::PsOptions{.servers = 2};
  const RunPlan apart = plan_training(config, "ps", 2);
  ASSERT_EQ(apart.ranks.size(), 4u);
  EXPECT_EQ(apart.ranks[1].worker, 1);
  EXPECT_EQ(apart.ranks[1].server, -1);
  EXPECT_EQ(apart.ranks[3].worker, -1);
  EXPECT_EQ(apart.ranks[3].server, 1);
  config.scheme_options["ps"] = ps::PsOptions{.servers = 2, .placement = ps::Placement::colocated};
  const RunPlan colocated = plan_training(config, "ps", 2);
  ASSERT_EQ(colocated.ranks.size(), 2u);
  EXPECT_EQ(colocated.ranks[1].role(), "worker+server");
  EXPECT_EQ(colocated.servers, 2);
}

TEST(Planner, PlacesAServerWithEveryWorkerAndDedicatedOnesAfterThem) {
  auto config = experiment();
  config.scheme_options["ps"] = ps::PsOptions{.servers = 1, .placement = ps::Placement::mixed};
  const RunPlan plan = plan_training(config, "ps", 2);
  ASSERT_EQ(plan.ranks.size(), 3u);
  EXPECT_EQ(plan.servers, 3);
  EXPECT_EQ(plan.ranks[0].server, 0);
  EXPECT_EQ(plan.ranks[1].role(), "worker+server");
  EXPECT_EQ(plan.ranks[2].role(), "server");
  EXPECT_EQ(plan.ranks[2].server, 2);
  EXPECT_EQ(plan_training(config, "ps", 4).servers, 5);
  config.scheme_options["ps"] = ps::PsOptions{.servers = 3, .placement = ps::Placement::mixed};
  EXPECT_THAT(complaint([&] { plan_training(config, "ps", 2); }),
              HasSubstr("scheme.ps.servers = 3: with placement 'mixed' there is at most one "
                        "dedicated server for each of 2 workers"));
  config.scheme_options["ps"] = ps::PsOptions{.servers = 1,
                                              .placement = ps::Placement::mixed,
                                              .partition_by = ps::PartitionBy::round_robin};
  EXPECT_THAT(complaint([&] { plan_training(config, "ps", 2); }),
              HasSubstr("scheme.ps.partition_by = 'round_robin' gives all servers equally many"));
  config.scheme_options["ps"] =
      ps::PsOptions{.consistency = ps::Consistency::asp, .pull = ps::Pull::barrier};
  EXPECT_THAT(complaint([&] { plan_training(config, "ps", 2); }),
              HasSubstr("scheme.ps.consistency = 'asp': there is no point at which all workers "));
  config.scheme_options["dp"] = ps::DpOptions{.placement = ps::Placement::mixed};
  EXPECT_THAT(complaint([&] { plan_training(config, "dp", 2); }),
              HasSubstr("scheme.dp.placement = 'mixed': there is one master"));
}

/// The machines of the dedicated servers of a simulated run.
std::vector<int> machines_of_servers(const ExperimentConfig& config, int world) {
  const RunPlan plan = plan_training(config, "ps", world);
  std::vector<int> machines;
  for (const RankPlan& rank : plan.ranks)
    if (rank.worker < 0) machines.push_back(place_of(plan, rank.rank).machine);
  return machines;
}

TEST(Planner, DedicatedServersShareTheMachinesOfWorkersOrLiveApart) {
  auto config = experiment();
  config.device.kind = "sim";
  config.cluster = testing::small_cluster(2);
  config.cluster->machines = 4;
  config.scheme_options["ps"] = ps::PsOptions{.servers = 3};
  EXPECT_THAT(machines_of_servers(config, 4), ElementsAre(0, 1, 2));
  config.sim.servers_apart = true;
  EXPECT_THAT(machines_of_servers(config, 4), ElementsAre(2, 3, 2));
  config.scheme_options["ps"] = ps::PsOptions{.servers = 2, .placement = ps::Placement::mixed};
  EXPECT_THAT(machines_of_servers(config, 4), ElementsAre(2, 3));
  EXPECT_THAT(complaint([&] { plan_training(config, "ps", 8); }),
              HasSubstr("sim.servers_apart: all 4 machines of cluster small have workers"));
  config.scheme_options["ps"] = ps::PsOptions{.servers = 2, .placement = ps::Placement::colocated};
  EXPECT_EQ(plan_training(config, "ps", 8).ranks.size(), 8u);
  config.device.kind = "cpu";
  config.cluster.reset();
  EXPECT_THAT(complaint(config), HasSubstr("sim.servers_apart needs a simulated cluster"));
}

ExperimentConfig simulated_experiment() {
  auto config = experiment();
  config.device.kind = "sim";
  config.cluster = testing::small_cluster(2);
  return config;
}

TEST(Planner, SettingsWinOverTheClusterFile) {
  auto config = simulated_experiment();
  config.cluster->spread = 0.02;
  config.cluster->collective.device_share = 0.1;
  EXPECT_EQ(plan_training(config, "ddp", 2).cluster, config.cluster);
  config.sim.spread = 0.3;
  config.sim.device_share = 0;
  config.cluster->nic.by_queue.points = {{345, 0.7}};
  config.sim.queue_kb = 345;
  config.device.efficiency = 0.5;
  config.device.unfused = 5;
  const sim::ClusterSpec cluster = *plan_training(config, "ddp", 2).cluster;
  EXPECT_EQ(cluster.spread, 0.3);
  EXPECT_EQ(cluster.collective.device_share, 0);
  EXPECT_EQ(cluster.nic.queue_kb, 345);
  config.sim.drops = false;
  EXPECT_EQ(plan_training(config, "ddp", 2).cluster->nic.queue_kb, 0);
  for (const auto& [name, curve] : cluster.device.efficiency.at("fp32"))
    EXPECT_DOUBLE_EQ(
        curve.points[0].second,
        (std::set<std::string>{"normalisation", "batch_normalisation", "elementwise"}.contains(name)
             ? 0.1
             : 0.5) *
            config.cluster->device.efficiency.at("fp32").at(name).points[0].second)
        << name;
  EXPECT_EQ(cluster.host, config.cluster->host);
}

TEST(Planner, AModelWhoseSpeedIsKnownHasItAndNoError) {
  auto config = simulated_experiment();
  config.model = find_preset("resnet-18-cifar").config;
  config.data.kind = "synthetic-images";
  sim::DeviceSpec& device = config.cluster->device;
  device.tflops["bf16"] = 2;
  device.efficiency["bf16"] = device.efficiency["fp32"];
  device.error["fp32"] = 0.2;
  config.cluster->speeds = {
      {"resnet-18-cifar", "fp32", 0.5}, {"gpt2", "fp32", 0.72}, {"gpt2", "bf16", 8}};
  const auto share = [&] {
    return plan_training(config, "ddp", 2).cluster->device.efficiency.at("fp32").at("linear").at(1);
  };
  const auto error = [&] {
    return plan_training(config, "ddp", 2).cluster->device.error.at("fp32");
  };
  EXPECT_DOUBLE_EQ(share(), 0.5 * 0.5);
  EXPECT_EQ(error(), 0);
  config.cluster->speeds[0].error = 0.03;
  EXPECT_EQ(error(), 0.03);
  config.model.dropout = 0.1;
  EXPECT_DOUBLE_EQ(share(), 0.5 * 0.5) << "the same model";
  for (const char* name : {"bert-large", "gpt2", "llama2-7b", "smolvlm-2b"}) {
    ModelConfig shorter = find_preset(name).config;
    shorter.context = 128;
    ASSERT_TRUE(preset_of(shorter)) << name;
    EXPECT_EQ(preset_of(shorter)->name, name);
  }
  config.model.classes = 100;
  EXPECT_DOUBLE_EQ(share(), 0.5 * 0.6) << "the geometric mean of others";
  EXPECT_EQ(error(), 0.2);
  config.cluster->speeds.clear();
  EXPECT_EQ(share(), 0.5);
  config.device.efficiency = 2;
  EXPECT_EQ(share(), 1);
  EXPECT_EQ(error(), 0);
}

TEST(Planner, AFrameworkTakesTimeForEveryTensorOfItsSchemes) {
  auto config = simulated_experiment();
  config.model = {.kind = "mlp", .layers = 3, .width = 8, .context = 2};
  config.sim.framework = "pytorch";
  // The embedding, and a weight and a bias of each hidden layer and of the head.
  constexpr int tensors = 1 + 2 * 3 + 2;
  const double us = find_framework("pytorch").gradient_us.at("ddp");
  EXPECT_EQ(plan_training(config, "ddp", 2).host_step_us, us * tensors);
  EXPECT_EQ(plan_training(config, "fsdp", 2).host_step_us, 0);
  config.sim.framework = "none";
  EXPECT_EQ(plan_training(config, "ddp", 2).host_step_us, 0);
}

TEST(Planner, SpreadsColocatedServersOverMachines) {
  auto config = simulated_experiment();
  config.cluster->machines = 4;
  config.cluster->devices = 2;
  config.train.global_batch = 8;
  const auto machines = [&](std::int64_t servers) {
    config.scheme_options["ps"] =
        ps::PsOptions{.servers = servers, .placement = ps::Placement::colocated};
    const RunPlan plan = plan_training(config, "ps", 8);
    std::vector<int> machines(static_cast<std::size_t>(servers), -1);
    for (const RankPlan& rank : plan.ranks)
      if (rank.server >= 0)
        machines[static_cast<std::size_t>(rank.server)] = place_of(plan, rank.rank).machine;
    return machines;
  };
  EXPECT_THAT(machines(1), ElementsAre(0));
  EXPECT_THAT(machines(2), ElementsAre(0, 2));
  EXPECT_THAT(machines(3), ElementsAre(0, 1, 2));
  EXPECT_THAT(machines(4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(machines(8), ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
}

TEST(Planner, WhatASettingReplacesIsNotAssumed) {
  auto config = simulated_experiment();
  config.cluster->assumed = {{"nic", {"bandwidth_gbs", "latency_us"}},
                             {"cluster", {"spread"}},
                             {"message", {"send_us", "receive_us"}}};
  EXPECT_EQ(plan_training(config, "ps", 2).cluster->assumed, config.cluster->assumed);
  config.sim.network_gbit_s = 10;
  config.sim.spread = 0;
  config.sim.messages = "grpc";
  EXPECT_EQ(plan_training(config, "ps", 2).cluster->assumed,
            (std::vector<sim::Assumed>{{"nic", {"latency_us"}}}));
}

TEST(Planner, MessagesCostWhatTheirLibraryTakes) {
  auto config = simulated_experiment();
  EXPECT_EQ(plan_training(config, "ps", 2).cluster->message, config.cluster->message);
  config.sim.messages = "grpc";
  EXPECT_EQ(plan_training(config, "ps", 2).cluster->message, find_messages("grpc").cost);
}

TEST(Planner, SettingsOfSimulationsThatCannotBeAreNamed) {
  const auto refused = [](auto change) {
    auto config = simulated_experiment();
    change(config);
    return complaint(config);
  };
  EXPECT_THAT(refused([](auto& c) { c.sim.decode = true; }),
              HasSubstr("sim.decode = true: a model of kind 'gpt' takes no images"));
  EXPECT_THAT(refused([](auto& c) {
                c.model = {.kind = "resnet", .layers = 18};
                c.data.kind = "synthetic-images";
                c.sim.decode = true;
              }),
              HasSubstr("sim.decode = true: cluster small does not say how many images"));
  EXPECT_THAT(refused([](auto& c) { c.sim.framework = "pytorsh"; }),
              HasSubstr("unknown framework 'pytorsh'; did you mean 'pytorch'?"));
  EXPECT_THAT(refused([](auto& c) { c.sim.messages = "grcp"; }),
              HasSubstr("unknown library of messages 'grcp'; did you mean 'grpc'?"));
  EXPECT_THAT(refused([](auto& c) { c.sim.spread = -0.5; }),
              HasSubstr("sim.spread = -0.5 must lie between 0 and 2, or be -1"));
  EXPECT_THAT(refused([](auto& c) { c.sim.queue_kb = -2; }),
              HasSubstr("sim.queue_kb = -2 must be at least 0, or -1"));
  EXPECT_THAT(
      refused([](auto& c) { c.sim.queue_kb = 345; }),
      HasSubstr("sim.queue_kb = 345: cluster small does not say what a short queue leaves"));
  EXPECT_THAT(refused([](auto& c) { c.sim.device_share = 1; }),
              HasSubstr("sim.device_share = 1 must be at least 0 and less than 1"));
  EXPECT_THAT(refused([](auto& c) { c.device.efficiency = 17; }),
              HasSubstr("device.efficiency = 17 must lie between 1/16 and 16"));
  EXPECT_THAT(refused([](auto& c) { c.device.unfused = 0.5; }),
              HasSubstr("device.unfused = 0.5 must lie between 1 and 100"));
  EXPECT_THAT(refused([](auto& c) {
                c.cluster->device.efficiency["fp32"]["linear"].points[0].second = 2;
                c.device.efficiency = 16;
              }),
              HasSubstr("cluster small with the settings of [device] and [sim]: "
                        "device.efficiency.fp32.linear must have shares"));
  auto real = experiment();
  real.device.efficiency = 0.5;
  EXPECT_THAT(complaint(real), HasSubstr("device.efficiency = 0.5 is for simulated devices"));
  real.device.efficiency = 1;
  real.device.unfused = 2;
  EXPECT_THAT(complaint(real), HasSubstr("device.unfused = 2 is for simulated devices"));
  real.device.unfused = 1;
  real.sim.framework = "pytorch";
  EXPECT_THAT(complaint(real), HasSubstr("sim.framework = 'pytorch' needs a simulated cluster"));
  real.sim.framework = "none";
  real.sim.messages = "grpc";
  EXPECT_THAT(complaint(real), HasSubstr("sim.messages = 'grpc' needs a simulated cluster"));
}

TEST(Planner, DevicesOfACpuAreNotToldApart) {
  auto config = experiment();
  config.scheme_options["ps"] = ps::PsOptions{.server_device = ps::ServerDevice::cpu};
  const RunPlan plan = plan_training(config, "ps", 2);
  for (const RankPlan& rank : plan.ranks) {
    EXPECT_EQ(device_kind(plan, rank), "cpu");
    EXPECT_EQ(rank.ordinal, -1);
    EXPECT_THAT(rank.environment, ElementsAre("GLIBC_TUNABLES=glibc.malloc.tcache_count=0"));
  }
  EXPECT_FALSE(shares_device(plan));
}

TEST(Planner, ADeviceIsSharedByRanksOfOneKindAndNumber) {
  RunPlan plan;
  plan.device.kind = "cuda";
  plan.ranks = {{.rank = 0, .ordinal = 0}, {.rank = 1, .ordinal = 1}, {.rank = 2}};
  EXPECT_FALSE(shares_device(plan));
  plan.ranks[2] = {.rank = 2, .device = "other", .ordinal = 1};
  EXPECT_FALSE(shares_device(plan));
  plan.ranks[2] = {.rank = 2, .ordinal = 1};
  EXPECT_TRUE(shares_device(plan));
}

TEST(Planner, OptionsAreCompleteAndChecked) {
  auto config = experiment();
  config.scheme_options["ddp"] = peer::DdpOptions{.bucket_mb = 3};
  EXPECT_EQ(plan_training(config, "ddp", 2).options, peer::DdpOptions{.bucket_mb = 3});
  config.scheme_options["ps"] = ps::PsOptions{.transport = ps::TransportKind::shm};
  EXPECT_EQ(plan_training(config, "ps", 2).ranks.size(), 4u);
  config.device.kind = "cuda";
  EXPECT_THAT(complaint([&] { plan_training(config, "ps", 2); }),
              HasSubstr("ranks on device cuda cannot map each other's memory"));
  config.device.kind = "cpu";
  config.scheme_options["ps"] = ps::PsOptions{.servers = 4097};
  EXPECT_THAT(complaint([&] { plan_training(config, "ps", 2); }),
              HasSubstr("scheme.ps.servers = 4097"));
}

TEST(Planner, RefusesBatchesThatDoNotDivide) {
  auto config = experiment();
  config.compare.worlds = {3};
  config.compare.schemes = {"ddp"};
  EXPECT_THAT(complaint(config),
              HasSubstr("train.global_batch = 16 is not divisible by world 3 (scheme ddp)"));
  config.compare.worlds = {1};
  config.train.micro_batch = 6;  // 3 micro-batches for 16 samples
  EXPECT_THAT(complaint(config), HasSubstr("3 micro-batches do not divide evenly"));
  config = experiment();
  config.train.accumulation = 32;
  EXPECT_THAT(complaint(config), HasSubstr("32 micro-batches do not divide evenly"));
}

TEST(Planner, RefusesWhatCannotBeRun) {
  const auto with = [](auto change) {
    auto config = experiment();
    change(config);
    return complaint(config);
  };
  EXPECT_THAT(with([](auto& c) { c.compare.worlds = {0}; }), HasSubstr("world = 0"));
  EXPECT_THAT(with([](auto& c) { c.compare.worlds = {1 << 20}; }), HasSubstr("between 1 and 4096"));
  EXPECT_THAT(with([](auto& c) { c.compare.worlds = {}; }), HasSubstr("compare.worlds is empty"));
  EXPECT_THAT(with([](auto& c) {
                c.compare.worlds = {2, 2};
              }),
              HasSubstr("compare.worlds names 2 twice"));
  EXPECT_THAT(with([](auto& c) { c.compare.schemes = {}; }), HasSubstr("compare.schemes is empty"));
  EXPECT_THAT(with([](auto& c) { c.compare.schemes = {"dpp"}; }), HasSubstr("did you mean 'dp'?"));
  EXPECT_THAT(with([](auto& c) { c.compare.repeats = 0; }), HasSubstr("compare.repeats = 0"));
  EXPECT_THAT(with([](auto& c) { c.train.steps = 5; }), HasSubstr("train.warmup = 5"));
  EXPECT_THAT(with([](auto& c) { c.device.tf32 = true; }), HasSubstr("device.tf32 = true"));
  EXPECT_THAT(with([](auto& c) {
                c.scheme_options["ps"] = ps::PsOptions{.servers = 1,
                                                       .placement = ps::Placement::colocated,
                                                       .server_device = ps::ServerDevice::cpu};
              }),
              HasSubstr("colocated servers use the device of their worker"));
  EXPECT_THAT(with([](auto& c) { c.train.global_batch = 0; }), HasSubstr("train.global_batch = 0"));
  EXPECT_THAT(with([](auto& c) { c.train.seed = -1; }), HasSubstr("train.seed = -1"));
  EXPECT_THAT(with([](auto& c) { c.train.timeout_s = 0; }), HasSubstr("train.timeout_s"));
  EXPECT_THAT(with([](auto& c) { c.train.timeout_s = 2e6; }), HasSubstr("at most 1000000 seconds"));
  EXPECT_THAT(with([](auto& c) {
                c.compare.schemes = {"ps"};
                c.compare.worlds = {4096};
                c.train.global_batch = 4096;
                c.train.micro_batch = 1;
              }),
              HasSubstr("more than 4096 ranks"));
  EXPECT_THAT(with([](auto& c) { c.device.threads = 0; }), HasSubstr("device.threads = 0"));
  EXPECT_THAT(with([](auto& c) { c.device.kind = "cqu"; }), HasSubstr("did you mean 'cpu'?"));
  EXPECT_THAT(with([](auto& c) { c.model.kind = "gtp"; }), HasSubstr("did you mean 'gpt'?"));
  EXPECT_THAT(with([](auto& c) { c.data.kind = "txt"; }), HasSubstr("did you mean 'text'?"));
  EXPECT_THAT(with([](auto& c) { c.data.holdout = 1; }), HasSubstr("data.holdout = 1"));
  EXPECT_THAT(with([](auto& c) {
                c.train.evaluate_every = 5;
                c.data.holdout = 0;
              }),
              HasSubstr("needs held-out data"));
  EXPECT_THAT(with([](auto& c) { c.name = "../up"; }), HasSubstr("cannot name a folder"));
  EXPECT_THAT(with([](auto& c) { c.scheme_options["single"] = SingleOptions{.replicas = 0}; }),
              HasSubstr("replicas = 0"));
}

TEST(Planner, RefusesSizesThatOverflow) {
  constexpr std::int64_t huge = std::int64_t{1} << 62;
  const auto with = [](auto change) {
    auto config = experiment();
    change(config);
    return complaint(config);
  };
  EXPECT_THAT(with([](auto& c) { c.train.steps = huge; }), HasSubstr("train.steps = "));
  EXPECT_THAT(with([](auto& c) { c.train.global_batch = huge; }),
              HasSubstr("train.global_batch = 4611686018427387904 must be at most 16777216"));
  EXPECT_THAT(with([](auto& c) { c.train.micro_batch = huge; }), HasSubstr("train.micro_batch = "));
  EXPECT_THAT(with([](auto& c) { c.train.accumulation = huge; }),
              HasSubstr("train.accumulation = "));
  EXPECT_THAT(with([](auto& c) { c.train.evaluate_batches = huge; }),
              HasSubstr("train.evaluate_batches = "));
  EXPECT_THAT(with([](auto& c) { c.optimizer.beta1 = 0.99999999999; }),
              HasSubstr("optimizer.beta1 = 0.99999999999 is out of range"));
  EXPECT_THAT(with([](auto& c) {
                c.scheme_options["ps"] = ps::PsOptions{.servers = (std::int64_t{1} << 32) + 1};
              }),
              HasSubstr("scheme.ps.servers = 4294967297 must lie between 1 and 4096"));

  auto config = experiment();
  config.data.kind = "synthetic";
  config.model.context = 1 << 24;
  config.train.global_batch = config.train.micro_batch = 1 << 20;
  EXPECT_THAT(complaint([&] { check_inputs(plan_training(config, "single", 1)); }),
              HasSubstr("an activation could have more than 2^60 elements"));
}

TEST(Planner, ChecksTheInputsOnce) {
  auto config = experiment();
  config.data.path = {"/nowhere/text"};
  EXPECT_THAT(complaint([&] { check_inputs(plan_training(config, "single", 1)); }),
              HasSubstr("/nowhere/text"));
  config.model.heads = 3;
  EXPECT_THAT(complaint([&] { check_inputs(plan_training(config, "single", 1)); }),
              HasSubstr("heads"));
}

}  // namespace
}  // namespace ringside::runner
