// Plans of runs whose workers have different stages of the model.
#include "experiments/runner/plan/mesh_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/pipeline/makers.h"
#include "core/plan/definition.h"
#include "core/plan/lone_training.h"
#include "core/plan/mesh.h"
#include "core/plan/pipeline_plan.h"
#include "core/plan/places.h"
#include "core/plan/same_run.h"
#include "core/plan/stages.h"
#include "core/scheme/single.h"
#include "experiments/runner/config/cases.h"
#include "experiments/runner/plan/labels.h"
#include "experiments/runner/plan/one_run.h"
#include "experiments/runner/plan/planner.h"
#include "experiments/runner/plan/references.h"
#include "experiments/runner/plan/speeds.h"
#include "experiments/runner/registry/model_work.h"
#include "experiments/runner/registry/registry.h"
#include "peer/schemes/ddp.h"
#include "ps/schemes/ps.h"
#include "tests/support/complaint.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

using ::testing::AllOf;
using testing::complaint;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::small_cluster;

ExperimentConfig meshed(std::int64_t pipeline) {
  ExperimentConfig config;
  config.name = "trial";
  config.train.global_batch = 16;
  config.train.micro_batch = 2;
  config.mesh.pipeline = pipeline;
  return config;
}

RunPlan ddp(const ExperimentConfig& config, int world) {
  return plan_training(config, "ddp", world);
}

std::string refusal(const ExperimentConfig& config, const std::string& scheme, int world) {
  return complaint([&] { plan_training(config, scheme, world); });
}

TEST(MeshPlan, TrainsWhatARunOfTheDataWorldTrains) {
  const RunPlan plan = ddp(meshed(2), 4), plain = ddp(meshed(1), 2);
  EXPECT_EQ(plan.world, 4);
  EXPECT_EQ(plan.ranks.size(), 4u);
  EXPECT_EQ(plan.mesh, (MeshConfig{.data = 2, .pipeline = 2}));
  EXPECT_EQ(plan.train, plain.train);
  EXPECT_EQ(plan.sums, plain.sums);
  EXPECT_TRUE(same_training(plan, plain));
  EXPECT_FALSE(same_case(plan, plain));
}

TEST(MeshPlan, WithoutAPipelineIsWhatItWas) {
  ExperimentConfig config = meshed(1);
  const RunPlan plain = ddp(config, 4);
  config.mesh.data = 4;
  config.mesh.innermost = MeshDimension::pipeline;
  config.pipeline = {.schedule = "gpipe", .chunks = 2};
  EXPECT_EQ(ddp(config, 4), plain) << "as where mesh.pipeline is swept";
}

TEST(MeshPlan, RefusesAWorldThatIsNoMesh) {
  EXPECT_THAT(
      refusal(meshed(2), "ddp", 3),
      AllOf(HasSubstr("mesh.pipeline = 2 does not divide world 3"), HasSubstr("multiples of 2")));
  EXPECT_THAT(refusal(meshed(4), "ddp", 2), HasSubstr("mesh.pipeline = 4 does not divide world 2"));
  ExperimentConfig config = meshed(2);
  config.mesh.data = 3;
  EXPECT_THAT(refusal(config, "ddp", 4), AllOf(HasSubstr("mesh.data = 3"), HasSubstr("6 workers"),
                                               HasSubstr("mesh.data = 2")));
  config.mesh.pipeline = 1;
  EXPECT_THAT(refusal(config, "ddp", 4), AllOf(HasSubstr("mesh.data = 3"), HasSubstr("= 4")));
  config = meshed(2);
  config.train.global_batch = 15;
  EXPECT_THAT(refusal(config, "ddp", 4), HasSubstr("2 workers along mesh.data (scheme ddp)"));
}

TEST(MeshPlan, RefusesNumbersThatAreTooLarge) {
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(refusal(meshed(largest), "ddp", 2), HasSubstr("does not divide world 2"));
  ExperimentConfig config = meshed(2);
  config.mesh.data = largest;
  EXPECT_THAT(refusal(config, "ddp", 2), HasSubstr("mesh.data"));
  config = meshed(2);
  config.pipeline.schedule = "interleaved";
  config.pipeline.chunks = largest;
  EXPECT_THAT(refusal(config, "ddp", 2), HasSubstr("pipeline.chunks"));
  config.pipeline.chunks = 1;
  config.pipeline.cuts = {largest};
  EXPECT_THAT(refusal(config, "ddp", 2), HasSubstr("is not the first unit of a stage"));
}

TEST(MeshPlan, SingleHasNoMesh) {
  const ExperimentConfig config = meshed(2);
  EXPECT_EQ(plan_training(config, "single", 1), plan_training(meshed(1), "single", 1));
}

/// Ids, device numbers and environments belong to a process, what the pipeline is to do and the
/// workers' places in it to the plan of all.
RunPlan without_places(RunPlan plan) {
  plan.id.clear();
  plan.pipeline = {};
  plan.ranks_of_whole.clear();
  for (RankPlan& rank : plan.ranks) {
    rank.ordinal = -1;
    rank.environment.clear();
  }
  return plan;
}

/// Compares the view of every stage with a run of the data world, for both orders of dimensions.
void expect_views_of_plain_runs(ExperimentConfig config, const SchemeInfo& row, int data,
                                int pipeline) {
  for (const MeshDimension innermost : {MeshDimension::data, MeshDimension::pipeline}) {
    config.mesh = {};
    const RunPlan plain = plan_run(config, row, data, 0);
    config.mesh = {.pipeline = pipeline, .innermost = innermost};
    const RunPlan plan = plan_run(config, row, data * pipeline, 0);
    EXPECT_EQ(plan.ranks.size(), plain.ranks.size() * static_cast<std::size_t>(pipeline));
    EXPECT_EQ(plan.servers, plain.servers * pipeline);
    for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
      EXPECT_EQ(plan.ranks[r].rank, static_cast<int>(r));
      EXPECT_EQ(plan.ranks[r].worker, static_cast<int>(r) < plan.world ? static_cast<int>(r) : -1);
    }
    for (int p = 0; p < pipeline; ++p)
      EXPECT_EQ(without_places(data_view(plan, p)), without_places(plain))
          << row.name << ", stage " << p << ", " << name_of(innermost) << " innermost";
  }
}

TEST(MeshPlan, ShowsTheSchemesOfAStageAPlainRun) {
  for (const char* scheme : {"ddp", "fsdp", "local_sgd", "fedavg"})
    for (const int data : {1, 2, 4})
      expect_views_of_plain_runs(meshed(1), find_scheme(scheme), data, 3);
}

TEST(MeshPlan, ShowsTheServersOfAStageAPlainRun) {
  for (const ps::Placement placement :
       {ps::Placement::dedicated, ps::Placement::colocated, ps::Placement::mixed})
    for (const std::int64_t group : {1, 2}) {
      ExperimentConfig config = meshed(1);
      config.scheme_options["ps"] =
          ps::PsOptions{.servers = 2, .placement = placement, .sum_group = group};
      expect_views_of_plain_runs(config, find_scheme("ps"), 4, 2);
    }
}

TEST(MeshPlan, EveryRankOfAStageHasItsNumberInTheView) {
  ExperimentConfig config = meshed(2);
  config.scheme_options["ps"] = ps::PsOptions{.servers = 2, .placement = ps::Placement::mixed};
  for (const MeshDimension innermost : {MeshDimension::data, MeshDimension::pipeline}) {
    config.mesh.innermost = innermost;
    const RunPlan plan = plan_training(config, "ps", 8);
    for (const RankPlan& rank : plan.ranks) {
      const MeshPlace place = place_in_mesh(plan, rank.rank);
      const RankPlan own = data_view(plan, place.pipeline)
                               .ranks[static_cast<std::size_t>(rank_in_view(plan, rank.rank))];
      EXPECT_EQ(own.worker >= 0, rank.worker >= 0);
      EXPECT_EQ(own.server >= 0, rank.server >= 0);
      if (rank.worker >= 0) {
        EXPECT_EQ(worker_at(plan, {own.worker, place.pipeline}), rank.worker);
      }
      if (rank.server >= 0) {
        EXPECT_EQ(own.server + place.pipeline * plan.servers / 2, rank.server);
      }
    }
  }
}

TEST(MeshPlan, AViewHasTheSlownessOfItsOwnWorkers) {
  ExperimentConfig config = meshed(2);
  config.device.slow = {1, 2, 3};
  RunPlan plan = ddp(config, 4);
  EXPECT_THAT(data_view(plan, 0).device.slow, ElementsAre(1, 2));
  EXPECT_THAT(data_view(plan, 1).device.slow, ElementsAre(3, 1));
  config.mesh.innermost = MeshDimension::pipeline;
  plan = ddp(config, 4);
  EXPECT_THAT(data_view(plan, 0).device.slow, ElementsAre(1, 3));
  EXPECT_THAT(data_view(plan, 1).device.slow, ElementsAre(2, 1));
}

TEST(MeshPlan, NamesTheDimensionWithinAMachine) {
  ExperimentConfig config = meshed(2);
  EXPECT_EQ(mesh_text(ddp(config, 8)), "data 4 x pipeline 2, data within a machine");
  config.mesh.innermost = MeshDimension::pipeline;
  EXPECT_EQ(mesh_text(ddp(config, 8)), "data 4 x pipeline 2, pipeline within a machine");
  EXPECT_EQ(mesh_text(ddp(meshed(1), 8)), "");
  EXPECT_EQ(pipeline_text(ddp(config, 8)), "1f1b, stages from units 0, 3 of even parameters");
  config.pipeline.cuts = {4};
  EXPECT_EQ(pipeline_text(ddp(config, 8)), "1f1b, stages from units 0, 4") << "by hand";
}

TEST(MeshPlan, RemarksRecomputationUnderADividedBackward) {
  ExperimentConfig config = meshed(2);
  config.train.recompute = Recompute::full;
  for (const char* schedule : {"zb_h1", "zb_h2"}) {
    config.pipeline.schedule = schedule;
    EXPECT_THAT(recomputation_remark(ddp(config, 4)),
                HasSubstr(fmt::format("'full' saves little memory under {}, whose backward is "
                                      "divided",
                                      schedule)));
  }
  config.train.recompute = Recompute::attention;
  EXPECT_EQ(recomputation_remark(ddp(config, 4)), "");
  config.train.recompute = Recompute::full;
  config.pipeline.schedule = "1f1b";
  EXPECT_EQ(recomputation_remark(ddp(config, 4)), "");
  config.mesh.pipeline = 1;
  config.pipeline.schedule = "zb_h1";
  EXPECT_EQ(recomputation_remark(ddp(config, 4)), "") << "without a pipeline there is no schedule";
}

TEST(Pipelines, HaveStagesWithEvenNumbersOfParameters) {
  // The units of a GPT: the embedding, four blocks, and the head, which is lighter.
  EXPECT_THAT(ddp(meshed(2), 2).pipeline.cuts, ElementsAre(3));
  EXPECT_THAT(ddp(meshed(4), 4).pipeline.cuts, ElementsAre(2, 3, 4));
  ExperimentConfig config = meshed(2);
  config.model.vocabulary = 16384;  // an embedding as heavy as all blocks, and such a head
  EXPECT_THAT(ddp(config, 2).pipeline.cuts, ElementsAre(3));
  config.model.tied = true;  // the head has no table of its own
  EXPECT_THAT(ddp(config, 2).pipeline.cuts, ElementsAre(1));
}

TEST(Pipelines, TakeCutsByHand) {
  ExperimentConfig config = meshed(3);
  config.pipeline.cuts = {1, 3};
  EXPECT_THAT(ddp(config, 3).pipeline.cuts, ElementsAre(1, 3));
  EXPECT_EQ(ddp(config, 3).pipeline.alike, StagesAlike::nothing);
  config.pipeline.cuts = {3};
  EXPECT_THAT(refusal(config, "ddp", 3),
              AllOf(HasSubstr("pipeline.cuts = [3] makes 2 stages"), HasSubstr("give 2 numbers")));
  config.pipeline.cuts = {3, 3};
  EXPECT_THAT(refusal(config, "ddp", 3), HasSubstr("3 is not the first unit of a stage"));
  config.pipeline.cuts = {1, 6};
  EXPECT_THAT(refusal(config, "ddp", 3),
              AllOf(HasSubstr("6 is not the first unit of a stage"), HasSubstr("between 1 and 5")));
}

TEST(Pipelines, HaveAUnitForEachStage) {
  EXPECT_THAT(refusal(meshed(8), "ddp", 8),
              AllOf(HasSubstr("mesh.pipeline = 8"), HasSubstr("8 stages"), HasSubstr("6 units")));
  ExperimentConfig config = meshed(2);
  config.pipeline.schedule = "interleaved";
  config.pipeline.chunks = 3;
  EXPECT_EQ(ddp(config, 2).pipeline.cuts.size(), 5u);
  config.pipeline = {.schedule = "zb_v"};
  EXPECT_EQ(ddp(config, 2).pipeline.cuts.size(), 3u);
}

TEST(Pipelines, HaveSchedulesOfThisProgram) {
  ExperimentConfig config = meshed(2);
  config.pipeline.schedule = "Interleaved1F1B";  // as PyTorch calls it
  config.pipeline.chunks = 2;
  const RunPlan plan = ddp(config, 2);
  EXPECT_EQ(plan.pipeline.schedule, "interleaved");
  EXPECT_EQ(schedule_of(plan).stages(), 4);
  EXPECT_EQ(schedule_of(plan).micro_batches, plan.train.accumulation);
  config.pipeline.schedule = "1f1b";
  config.pipeline.chunks = 0;
  EXPECT_EQ(ddp(config, 2).pipeline.chunks, 1) << "it has one stage a worker";
  config.pipeline.schedule = "1f2b";
  EXPECT_THAT(refusal(config, "ddp", 2), AllOf(HasSubstr("1f2b"), HasSubstr("1f1b")));
  config.pipeline.schedule = "interleaved";
  config.pipeline.chunks = 2;
  config.train.global_batch = 6;  // of 2 in a micro-batch
  EXPECT_THAT(refusal(config, "ddp", 2),
              AllOf(HasSubstr("pipeline.schedule = 'interleaved' with mesh.pipeline = 2 and 3"),
                    HasSubstr("train.accumulation")));
}

/// A key that a run cannot follow is refused, whatever else the file says.
TEST(Pipelines, IgnoreNoKey) {
  ExperimentConfig config = meshed(2);
  config.pipeline.chunks = 2;
  for (const char* one : {"1f1b", "gpipe", "sequential", "zb_h1", "zb_h2"}) {
    config.pipeline.schedule = one;
    EXPECT_EQ(
        refusal(config, "ddp", 2),
        fmt::format("pipeline.chunks = 2: with schedule {} a worker has 1 stage; leave it out, "
                    "or choose pipeline.schedule = 'interleaved'",
                    one));
  }
  config.pipeline.schedule = "zb_v";
  EXPECT_EQ(ddp(config, 2).pipeline.chunks, 2);
  config.pipeline.chunks = 1;
  EXPECT_THAT(refusal(config, "ddp", 2),
              HasSubstr("pipeline.chunks = 1: with schedule zb_v a worker has 2 stages"));
  for (const char* one : {"1f1b", "zb_h1"}) {
    config.pipeline.schedule = one;
    EXPECT_EQ(ddp(config, 2).pipeline.chunks, 1) << "which it has anyway";
  }
  config.pipeline = {.schedule = "interleaved"};
  EXPECT_EQ(ddp(config, 2).pipeline.chunks, 1);

  config = meshed(1);
  config.pipeline.cuts = {1, 3};
  EXPECT_EQ(refusal(config, "ddp", 2),
            "pipeline.cuts = [1, 3]: every worker has the whole model, as mesh.pipeline = 1; leave "
            "it out, or set mesh.pipeline = 3");
  EXPECT_EQ(refusal(config, "single", 1), "nothing") << "it stands beside pipelines in a table";
  config.pipeline = {.profile = {.f = 1}};
  for (const std::int64_t pipeline : {1, 2}) {
    config.mesh.pipeline = pipeline;
    EXPECT_THAT(refusal(config, "ddp", 2),
                HasSubstr("pipeline.profile: stages of real ranks take the time that they take; "
                          "leave it out"));
  }
}

TEST(Pipelines, HoldNoMoreMicroBatchesThanAllowed) {
  ExperimentConfig config = meshed(2);
  config.pipeline.most_in_flight = 2;
  EXPECT_EQ(ddp(config, 2).pipeline.schedule, "1f1b");
  config.pipeline.schedule = "gpipe";
  const std::int64_t all = ddp(meshed(2), 2).train.accumulation;
  EXPECT_THAT(refusal(config, "ddp", 2),
              AllOf(HasSubstr(fmt::format("holds activations of {} micro-batches", all)),
                    HasSubstr("2 are allowed (pipeline.most_in_flight")));
}

TEST(Pipelines, TakeSchedulesFromFilesNextToTheExperiment) {
  const auto schedule = [](const std::string& given) {
    return experiment_of("trial", {"pipeline.schedule=" + given}).common.pipeline.schedule;
  };
  EXPECT_EQ(schedule("gpipe"), "gpipe");
  EXPECT_EQ(schedule("mine.csv"), (std::filesystem::current_path() / "mine.csv").string());
  EXPECT_EQ(label_with("ddp", {{"pipeline.schedule", "/there/mine.csv"}}), "ddp (schedule=mine)");
}

class ScheduleFile : public ::testing::Test {
 protected:
  /// A run of world 2 with this file, of two micro-batches.
  ExperimentConfig with(const std::string& text) const {
    std::ofstream(file_) << text;
    ExperimentConfig config = meshed(2);
    config.train.global_batch = 4;
    config.pipeline.schedule = file_;
    return config;
  }
  void TearDown() override { std::filesystem::remove(file_); }

  const std::string file_ = fmt::format("{}/ringside-{}-mine.csv",
                                        std::filesystem::temp_directory_path().string(), getpid());
  const std::string text_ = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";
};

TEST_F(ScheduleFile, ComesToTheRanksWithThePlan) {
  const RunPlan plan = ddp(with(text_), 2);
  std::filesystem::remove(file_);
  const RunPlan told = run_plan_from_json(nlohmann::json(to_json(plan)), default_options);
  EXPECT_EQ(told, plan);
  EXPECT_EQ(schedule_of(told).actions,
            with_sends(pipeline::find_maker("1f1b").make(2, 1, 2)).actions);
}

TEST_F(ScheduleFile, SaysByItselfWhichWorkerHasWhichStages) {
  ExperimentConfig config = with(text_);
  config.pipeline.chunks = 2;
  EXPECT_EQ(
      refusal(config, "ddp", 2),
      "pipeline.chunks = 2: " + file_ +
          " has 2 stages for 2 workers; leave it out, as the file says by itself which worker "
          "has which stages");
  config.pipeline.chunks = 1;
  EXPECT_EQ(ddp(config, 2).pipeline.chunks, 1) << "which it has";
}

TEST_F(ScheduleFile, HasToFitThePipeline) {
  ExperimentConfig config = with(text_);
  config.mesh.pipeline = 3;
  EXPECT_THAT(refusal(config, "ddp", 3),
              AllOf(HasSubstr("has 2 rows"), HasSubstr("set mesh.pipeline = 2")));
  config = with(text_);
  config.train.global_batch = 8;
  EXPECT_THAT(refusal(config, "ddp", 2),
              AllOf(HasSubstr("for 2 micro-batches"), HasSubstr("a worker has 4")));
  EXPECT_THAT(refusal(with("0F0,0F1\n"), "ddp", 2), HasSubstr("mine.csv"));
  EXPECT_THAT(refusal(with("0F0,what\n"), "ddp", 2), HasSubstr("row 1, cell 2"));
  config = with(text_);
  std::filesystem::remove(file_);
  EXPECT_EQ(refusal(config, "ddp", 2),
            "pipeline.schedule: " + file_ +
                ": there is no such file; give the path of a CSV file with a row for each rank");
}

TEST(Pipelines, MayHaveStagesOfEvenTime) {
  ExperimentConfig config = meshed(2);
  config.model.vocabulary = 16384;
  config.pipeline.balance = StageBalance::time;
  const RunPlan plan = ddp(config, 2);
  const std::vector<double> operations = operations_of_units(plan);
  ASSERT_EQ(operations.size(), 6u);
  EXPECT_EQ(operations[1], operations[2]) << "blocks are equal";
  // A product in forward, and two in backward, over the positions of two samples.
  const double product = 2.0 * 2 * 128 * 128 * 16384;
  EXPECT_GE(operations[5], 3 * product);
  EXPECT_LE(operations[5], 3.1 * product);
  EXPECT_EQ(plan.pipeline.cuts, balanced_cuts(operations, 2));
  EXPECT_THAT(plan.pipeline.cuts, ElementsAre(5)) << "the head takes longer than all else";
  EXPECT_EQ(plan.pipeline.alike, StagesAlike::operations);
}

/// A machine on which an operation takes the longer, the more there is to start and not to compute.
CalibratedMachine machine_slow_to_start() {
  sim::ClusterSpec cluster = small_cluster(2);
  cluster.device.launch_us = 1e5;
  return {.cluster = cluster};
}

TEST(Pipelines, MayHaveStagesOfTheTimeThatWasMeasuredHere) {
  ExperimentConfig config = meshed(2);
  config.model.vocabulary = 16384;
  config.pipeline.balance = StageBalance::time;
  const RunPlan by_operations = ddp(config, 2);
  config.calibrated = machine_slow_to_start();
  const RunPlan plan = ddp(config, 2);
  EXPECT_EQ(plan.pipeline.alike, StagesAlike::measured);
  EXPECT_NE(plan.pipeline.cuts, by_operations.pipeline.cuts);
  EXPECT_THAT(plan.pipeline.cuts, ElementsAre(3)) << "units with equally many operations to start";
  EXPECT_FALSE(plan.cluster) << "ranks are real";
  EXPECT_THAT(pipeline_text(plan), HasSubstr("stages from units 0, 3 of even measured time"));
  const RunPlan told = run_plan_from_json(nlohmann::json(to_json(plan)), default_options);
  EXPECT_EQ(told, plan);
}

TEST(Pipelines, AreNotBalancedByTheTimesOfOtherDevices) {
  ExperimentConfig config = meshed(2);
  config.pipeline.balance = StageBalance::time;
  config.calibrated = machine_slow_to_start();
  config.calibrated->device = "cuda";
  EXPECT_EQ(ddp(config, 2).pipeline.alike, StagesAlike::operations);
  config.calibrated->device = "cpu";
  config.calibrated->cluster.device.kind = sim::DeviceKind::cpu;
  config.calibrated->threads = config.device.threads + 1;
  EXPECT_EQ(ddp(config, 2).pipeline.alike, StagesAlike::operations);
  config.calibrated->threads = config.device.threads;
  EXPECT_EQ(ddp(config, 2).pipeline.alike, StagesAlike::measured);
  config.pipeline.balance = StageBalance::parameters;
  EXPECT_EQ(ddp(config, 2).pipeline.alike, StagesAlike::parameters);
}

TEST(Pipelines, TakeTheTimesOfTheirOwnTrainingBeforeThoseOfOthers) {
  const RunPlan plan = ddp(meshed(2), 2);
  sim::ClusterSpec machine = small_cluster(2);
  const auto timed = [](const std::string& training, double bytes, double us) {
    return sim::TimedOperation{training, "fp32", "linear", 1e6, bytes, us};
  };
  machine.timed = {timed("other", 1e3, 1), timed("other", 2e3, 2),
                   timed(lone_training_name(plan), 2e3, 3)};
  std::vector<double> us;
  for (const sim::TimedOperation& one : calibrated_for(plan, machine).timed) us.push_back(one.us);
  EXPECT_THAT(us, ElementsAre(1, 3));
}

TEST(Pipelines, MayHaveStagesOfEvenSimulatedTime) {
  ExperimentConfig config = meshed(2);
  config.device.kind = "sim";
  config.cluster = small_cluster(2);
  config.pipeline.balance = StageBalance::time;
  const RunPlan plan = ddp(config, 2);
  const std::vector<double> seconds = seconds_of_units(plan);
  double together = 0;
  for (const double one : seconds) {
    EXPECT_GT(one, 0);
    together += one;
  }
  const double whole = MicroBatchTimes(plan).seconds(0, plan.train.micro_batch);
  EXPECT_NEAR(together, whole, 1e-9 * whole);
  EXPECT_EQ(plan.pipeline.alike, StagesAlike::simulated);
  EXPECT_EQ(plan.pipeline.cuts, balanced_cuts(seconds, 2));
}

/// 6 x 2 workers on three machines of four devices.
ExperimentConfig summed_on_three_machines(MeshDimension innermost) {
  ExperimentConfig config = meshed(2);
  config.device.kind = "sim";
  config.cluster = small_cluster(4);
  config.cluster->machines = 3;
  config.mesh.innermost = innermost;
  config.train.global_batch = 24;
  config.scheme_options["ddp"] = peer::DdpOptions{.algorithm = Algorithm::hierarchical};
  return config;
}

TEST(MeshPlan, AStageMayTakeTheAlgorithmsThatItsOwnMachinesAllow) {
  EXPECT_EQ(refusal(summed_on_three_machines(MeshDimension::pipeline), "ddp", 12), "nothing")
      << "a stage has two workers on each machine";
  EXPECT_THAT(refusal(summed_on_three_machines(MeshDimension::data), "ddp", 12),
              AllOf(HasSubstr("scheme.ddp.algorithm"), HasSubstr("equally many ranks")))
      << "a stage has four workers on a machine and two on the next";
}

TEST(MeshPlan, WorkersOfAStageAreOnTheDevicesOfTheirNumbersInTheWholeRun) {
  const auto places = [](const RunPlan& plan) {
    std::vector<std::pair<int, int>> out;
    for (int worker = 0; worker < plan.world; ++worker) {
      const sim::Place place = place_of_worker(plan, worker);
      out.emplace_back(place.machine, place.device);
    }
    return out;
  };
  ExperimentConfig config = summed_on_three_machines(MeshDimension::pipeline);
  EXPECT_THAT(places(data_view(plan_training(config, "ddp", 12), 1)),
              ElementsAre(Pair(0, 1), Pair(0, 3), Pair(1, 1), Pair(1, 3), Pair(2, 1), Pair(2, 3)));
  config.mesh.innermost = MeshDimension::data;
  config.scheme_options.clear();
  EXPECT_THAT(places(data_view(plan_training(config, "ddp", 12), 1)),
              ElementsAre(Pair(1, 2), Pair(1, 3), Pair(2, 0), Pair(2, 1), Pair(2, 2), Pair(2, 3)));
}

Experiment comparison_of(const ExperimentConfig& config, const std::vector<std::string>& cases) {
  Experiment out(config);
  out.common.compare.schemes = {};
  out.common.compare.worlds = {4};
  out.common.compare.repeats = 1;
  out.common.compare.all_cores = false;
  for (const std::string& text : cases) out.cases.push_back(case_of_text(text));
  return out;
}

TEST(MeshPlan, CasesAndSweepsSetTheMesh) {
  Experiment experiment =
      comparison_of(meshed(1), {"ddp: mesh.pipeline=2, world=4", "ddp: world=4"});
  add_to_sweep(experiment, parse_assignment("pipeline.schedule=[\"gpipe\", \"1f1b\"]", "--set"));
  std::vector<std::string> labels;
  for (const RunPlan& run : plan_comparison(experiment))
    if (run.purpose == Purpose::asked) labels.push_back(run.listing.label);
  EXPECT_THAT(labels, ElementsAre("ddp (pipeline=2, schedule=gpipe)",
                                  "ddp (pipeline=2, schedule=1f1b)", "ddp (schedule=gpipe)"))
      << "without a pipeline a schedule changes nothing";
}

std::vector<RunPlan> references_of(const std::vector<RunPlan>& runs) {
  std::vector<RunPlan> out;
  for (const RunPlan& run : runs)
    if (run.purpose == Purpose::reference) out.push_back(run);
  return out;
}

TEST(MeshPlan, IsHeldAgainstSingleOfTheDataWorld) {
  const std::vector<RunPlan> runs =
      plan_comparison(comparison_of(meshed(1), {"ddp: mesh.pipeline=2, world=4", "ddp: world=2"}));
  const std::vector<RunPlan> references = references_of(runs);
  ASSERT_EQ(references.size(), 1u) << "both train the same";
  EXPECT_EQ(references[0].options.as<SingleOptions>().replicas, 2);
  EXPECT_EQ(references[0].mesh, MeshConfig{.data = 1});
  for (const RunPlan& run : runs)
    EXPECT_EQ(must_equal(run, references[0]), run.purpose != Purpose::all_cores) << run.id;
}

TEST(MeshPlan, HasTheDefinitionOfTheDataWorld) {
  ExperimentConfig config = meshed(2);
  config.train.reduce = Reduce::every;
  config.train.accumulation = 2;
  const RunPlan plan = plan_training(config, "fsdp", 4);
  ASSERT_TRUE(has_own_definition(plan));
  const RunPlan definition = definition_of(plan);
  EXPECT_EQ(definition.defines, 2);
  EXPECT_EQ(definition.world, 1);
  EXPECT_EQ(definition.mesh, MeshConfig{.data = 1});
  EXPECT_EQ(definition.pipeline, PipelineConfig());
  EXPECT_EQ(definition.train.accumulation, 2 * plan.train.accumulation);
  EXPECT_TRUE(must_equal(plan, definition));
  config.mesh = {};
  EXPECT_TRUE(must_equal(plan_training(config, "fsdp", 2), definition));
  EXPECT_FALSE(must_equal(plan_training(config, "fsdp", 4), definition));
}

TEST(MeshPlan, AnOrderOfSumsThatFollowsFromMachinesHasADefinition) {
  ExperimentConfig config = meshed(2);
  config.device.kind = "sim";
  config.cluster = small_cluster(2);
  config.cluster->machines = 2;
  config.scheme_options["ddp"] = peer::DdpOptions{.algorithm = Algorithm::ring};
  config.sim.numerics = true;
  ASSERT_TRUE(ddp(config, 4).sums.own_order);
  EXPECT_TRUE(must_equal(ddp(config, 4), definition_of(ddp(config, 4))));
  const RunPlan plan = ddp(config, 4);
  ASSERT_EQ(plan.sums.borders.size(), 1u) << "the first unit of stage 1";
  EXPECT_EQ(plan.sums.borders, plan.pipeline.cuts);
  ExperimentConfig whole = config;
  whole.mesh = {};
  EXPECT_FALSE(must_equal(plan, definition_of(ddp(whole, 2))))
      << "its buckets have units of both stages";
  config.mesh.innermost = MeshDimension::pipeline;  // stage 0 has a worker on each machine
  config.sim.numerics = true;
  EXPECT_THAT(refusal(config, "ddp", 4), AllOf(HasSubstr("mesh.innermost = 'pipeline'"),
                                               HasSubstr("set sim.numerics = false")));
  config.sim.numerics = false;
  EXPECT_EQ(refusal(config, "ddp", 4), "nothing");
}

// ---- what a run with a pipeline cannot do

std::string refused(const std::string& scheme, const std::function<void(ExperimentConfig&)>& set) {
  ExperimentConfig config = meshed(2);
  set(config);
  return refusal(config, scheme, 4);
}

TEST(MeshRefusals, NameTheKeyAndWhatToDo) {
  using Config = ExperimentConfig;
  const auto text = [](const char* of) {
    return AllOf(HasSubstr("mesh.pipeline = 2 does not go with"), HasSubstr(of),
                 HasSubstr("or set mesh.pipeline = 1"));
  };
  EXPECT_THAT(refused("ddp", [](Config& c) { c.faults.least_world = 2; }),
              text("faults.least_world = 2"));
  EXPECT_THAT(refused("ddp", [](Config& c) { c.train.shares = Shares::speed; }),
              text("train.shares = 'speed'"));
  EXPECT_THAT(refused("ddp",
                      [](Config& c) {
                        c.model.kind = "resnet";
                        c.data.kind = "synthetic-images";
                        c.model.batch_norm_group = 2;
                      }),
              text("model.batch_norm_group = 2"));
  EXPECT_THAT(refused("dp", [](Config&) {}), text("scheme dp"));
  EXPECT_THAT(refused("adpsgd", [](Config&) {}), text("scheme adpsgd"));
  EXPECT_THAT(refused("async_diloco", [](Config&) {}), text("scheme async_diloco"));
}

TEST(MeshRefusals, OfPostValidationNameWhatCannotBePutRight) {
  const auto early = [](const std::function<void(ExperimentConfig&)>& set) {
    return [set](ExperimentConfig& config) {
      config.pipeline.post_validation = true;
      set(config);
    };
  };
  const auto nothing_else = early([](ExperimentConfig&) {});
  const auto text = [](const char* of) {
    return AllOf(HasSubstr("pipeline.post_validation = true does not go with"), HasSubstr(of),
                 HasSubstr("or set pipeline.post_validation = false"));
  };
  EXPECT_THAT(refused("ddp", early([](ExperimentConfig& c) { c.optimizer.kind = "lamb"; })),
              text("optimizer.kind = 'lamb'"));
  EXPECT_THAT(
      refused("ddp", early([](ExperimentConfig& c) { c.train.offload = Offload::optimizer; })),
      text("train.offload = 'optimizer'"));
  for (const char* scheme : {"ps", "local_sgd"})
    EXPECT_THAT(refused(scheme, nothing_else), text(scheme));
  for (const char* scheme : {"ddp", "fsdp", "zero1", "zero2", "zero3"})
    EXPECT_EQ(refused(scheme, nothing_else), "nothing");
  EXPECT_EQ(refused("local_sgd",
                    [](ExperimentConfig& c) {
                      c.pipeline.post_validation = true;
                      c.mesh.pipeline = 1;
                    }),
            "nothing")
      << "without a pipeline nothing is said";
}

TEST(MeshRefusals, OfServersNameWhatNeedsTheWholeModel) {
  const auto with = [](const ps::PsOptions& options) {
    return [options](ExperimentConfig& config) { config.scheme_options["ps"] = options; };
  };
  EXPECT_THAT(refused("ps", with({.consistency = ps::Consistency::asp})), HasSubstr("scheme ps"));
  EXPECT_THAT(refused("ps", with({.port = 7000})), HasSubstr("scheme.ps.port = 7000"));
  EXPECT_EQ(refused("ps", with({})), "nothing");
  EXPECT_THAT(refused("ps", [](ExperimentConfig& config) { config.optimizer.clip_norm = 1; }),
              HasSubstr("optimizer.clip_norm = 1"));
  EXPECT_EQ(refused("ddp", [](ExperimentConfig& config) { config.optimizer.clip_norm = 1; }),
            "nothing");
  const auto fp16 = [](ExperimentConfig& config) { config.train.precision = Precision::fp16; };
  EXPECT_THAT(refused("ps", fp16), HasSubstr("train.precision = 'fp16'"));
  EXPECT_EQ(refused("ddp", fp16), "nothing");
  const auto saves = [](ExperimentConfig& config) { config.checkpoint.path = "/x"; };
  EXPECT_THAT(refused("ps", saves), HasSubstr("checkpoint.path = '/x'"));
  EXPECT_EQ(refused("ddp", saves), "nothing");
  const auto skips = [](ExperimentConfig& config) { config.train.skip_not_finite = 3; };
  EXPECT_THAT(refused("ps", skips), HasSubstr("train.skip_not_finite = 3"));
  EXPECT_EQ(refused("ddp", skips), "nothing");
  const auto cut = [](ExperimentConfig& config) {
    config.faults.plan = {"cut server 0 at step 2"};
  };
  EXPECT_THAT(refused("ps", cut), HasSubstr("faults.plan = 'cut server 0 at step 2'"));
}

}  // namespace
}  // namespace ringside::runner
