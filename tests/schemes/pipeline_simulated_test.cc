// Pipelines in a simulated cluster: times by a profile of their stages, memory, and the bits of
// `single`.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/device/counting_device.h"
#include "core/pipeline/makers.h"
#include "core/pipeline/simulation.h"
#include "core/plan/mesh.h"
#include "core/plan/pipeline_plan.h"
#include "experiments/runner/run/simulation.h"
#include "peer/schemes/ddp.h"
#include "peer/schemes/sums.h"
#include "tests/schemes/simulated.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

using testing::reference_of;
using testing::small_cluster;
using testing::tiny;

struct ProfiledPipeline {
  std::string schedule;
  int ranks = 2;
  std::int64_t micro_batches = 4, chunks = 1;
  pipeline::StageTimes stage_ms{.f = 3, .b = 2, .w = 1};
  bool tied = false;

  const pipeline::MakerInfo& row() const { return pipeline::find_maker(schedule); }
  int stages_of_rank() const {
    return row().chunks == pipeline::MakerInfo::Chunks::any ? static_cast<int>(chunks)
                                                            : usual_chunks(row());
  }
};

void PrintTo(const ProfiledPipeline& one, std::ostream* out) {
  *out << fmt::format("{} {}x{} {}", one.schedule, one.ranks, one.chunks, one.micro_batches);
}

constexpr double relative = 1e-9;

/// What ranks do about the norm of the gradients of all stages.
enum class Norm : std::uint8_t { unknown, waited_for, validated };

RunPlan profiled_plan(const ProfiledPipeline& one, double send_ms, Norm norm) {
  ExperimentConfig config = testing::simulated(tiny("gpt"), small_cluster(8));
  config.model.layers = 14;
  config.model.width = 16;
  config.model.tied = one.tied;
  config.train.steps = 7;  // the first measured one and the last one wait for the norm anyway
  config.train.warmup = 2;
  config.train.timeout_s = 1e6;
  config.train.global_batch = one.micro_batches;
  config.train.accumulation = one.micro_batches;
  config.optimizer.clip_norm = norm == Norm::unknown ? 0 : 1;
  config.mesh.pipeline = one.ranks;
  config.pipeline.schedule = one.schedule;
  config.pipeline.chunks = one.stages_of_rank();
  config.pipeline.post_validation = norm == Norm::validated;
  config.pipeline.profile = {
      .f = one.stage_ms.f, .b = one.stage_ms.b, .w = one.stage_ms.w, .send = send_ms};
  return plan_training(config, "ddp", one.ranks);
}

RunRecord simulated_row(const RunPlan& plan) {
  return make_row(plan, simulate(plan, [](const Progress&) {}));
}

/// Milliseconds of a step.
double step_ms(const ProfiledPipeline& one, double send_ms = 0, Norm norm = Norm::waited_for) {
  return simulated_row(profiled_plan(one, send_ms, norm)).step_ms.median;
}

/// Milliseconds for which every rank computes.
double busy_ms(const ProfiledPipeline& one) {
  return static_cast<double>(one.micro_batches * one.stages_of_rank()) *
         (one.stage_ms.f + one.stage_ms.b + one.stage_ms.w);
}

class ProfiledPipelines : public ::testing::TestWithParam<ProfiledPipeline> {};

TEST_P(ProfiledPipelines, HaveTheBubbleOfTheirPaper) {
  const ProfiledPipeline& one = GetParam();
  const double bubble = one.row().bubble(one.ranks, one.stages_of_rank(), one.micro_batches,
                                         one.stage_ms.f, one.stage_ms.b, one.stage_ms.w);
  ASSERT_FALSE(std::isnan(bubble));
  const double expected = busy_ms(one) * (1 + bubble);
  EXPECT_NEAR(step_ms(one), expected, relative * expected);
}

TEST_P(ProfiledPipelines, AreIdleAsTheirPaperSaysIfNoRankWaitsAtTheEnd) {
  const ProfiledPipeline& one = GetParam();
  const double idle = one.row().idle(one.ranks, one.stages_of_rank(), one.micro_batches,
                                     one.stage_ms.f, one.stage_ms.b, one.stage_ms.w);
  ASSERT_FALSE(std::isnan(idle));
  const double expected = busy_ms(one) + idle;
  for (const Norm norm : {Norm::unknown, Norm::validated})
    EXPECT_NEAR(step_ms(one, 0, norm), expected, relative * expected);
}

TEST_P(ProfiledPipelines, TakeWithSendsWhatTheCriticalPathTakes) {
  const ProfiledPipeline& one = GetParam();
  constexpr double send_ms = 0.7;
  const pipeline::Schedule schedule = schedule_of(profiled_plan(one, send_ms, Norm::waited_for));
  const double expected = simulate(schedule, equal_times(schedule, one.stage_ms, send_ms)).whole_s;
  EXPECT_NEAR(step_ms(one, send_ms), expected, relative * expected);
}

/// The table's gradient is added up late enough (core/pipeline/table_places.h). Its ways are hidden
/// but for that of the last micro-batch's gradient, behind which the step has nothing more to do,
/// and those of the values, beside the first outputs.
TEST_P(ProfiledPipelines, WithATiedTableTakeOnlyTheWayOfItsLastGradientLonger) {
  ProfiledPipeline one = GetParam();
  one.stage_ms = {2, 2, 2};
  for (const double send_ms : {0.0, 0.5}) {
    const double untied = step_ms(one, send_ms);
    ProfiledPipeline tied = one;
    tied.tied = true;
    const double with_table = step_ms(tied, send_ms);
    EXPECT_GE(with_table, untied * (1 - relative)) << send_ms;
    EXPECT_LE(with_table, (untied + send_ms) * (1 + relative)) << send_ms;
  }
}

/// Every rank's step is its compute and its waits for other stages, and nothing else.
TEST_P(ProfiledPipelines, CountAllWaitsForOtherStages) {
  for (const bool tied : {false, true}) {
    ProfiledPipeline one = GetParam();
    one.tied = tied;
    const RunRecord row = simulated_row(profiled_plan(one, /*send_ms=*/0.5, Norm::unknown));
    for (const RankRecord& rank : row.ranks) {
      double step_ms = 0, exposed_ms = 0;
      const auto warmup = static_cast<std::size_t>(row.plan.train.warmup);
      const auto steps = static_cast<double>(rank.steps.size() - warmup);
      for (std::size_t s = warmup; s < rank.steps.size(); ++s) {
        step_ms += 1e3 * rank.steps[s].total / steps;
        exposed_ms +=
            1e3 * rank.steps[s].by_activity[static_cast<std::size_t>(Activity::exposed)] / steps;
      }
      EXPECT_NEAR(rank.pipeline->waiting_ms, exposed_ms, relative * step_ms) << rank.rank << tied;
      EXPECT_NEAR(rank.pipeline->waiting_ms + busy_ms(one), step_ms, relative * step_ms)
          << rank.rank << tied;
    }
  }
}

std::vector<ProfiledPipeline> profiled_pipelines() {
  std::vector<ProfiledPipeline> out;
  for (const int ranks : {2, 4, 8}) {
    for (const std::int64_t m : {16, 24}) {
      for (const char* schedule : {"gpipe", "1f1b", "zb_h1", "zb_h2"})
        out.push_back({schedule, ranks, m});
      // The paper has formulas for equal times alone.
      out.push_back(
          {.schedule = "zb_v", .ranks = ranks, .micro_batches = m, .stage_ms = {2, 2, 2}});
      out.push_back({"interleaved", ranks, m, 2});
    }
  }
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, ProfiledPipelines, ::testing::ValuesIn(profiled_pipelines()),
                         [](const auto& info) {
                           return fmt::format("{}_{}_{}", info.param.schedule, info.param.ranks,
                                              info.param.micro_batches);
                         });

TEST(ProfiledPipelinesOfOneF, HaveTheShareThatGpipeStates) {
  for (const char* schedule : {"gpipe", "1f1b"})
    for (const int p : {2, 4, 8})
      for (const int m : {4, 16, 64}) {
        const ProfiledPipeline one{schedule, p, m};
        const double share = (p - 1.0) / (m + p - 1.0);
        EXPECT_NEAR(1 - busy_ms(one) / step_ms(one), share, relative) << schedule << p << m;
      }
}

/// The last rank begins and ends p - 1 forwards after rank 0: all wait so long if they wait for the
/// norm, and nothing if it is validated while forward goes on.
TEST(ProfiledZeroBubbles, LoseNothingToANormThatIsValidated) {
  for (const char* schedule : {"zb_h2", "zb_v"})
    for (const int p : {2, 4, 8}) {
      const ProfiledPipeline one{
          .schedule = schedule, .ranks = p, .micro_batches = 3 * p, .stage_ms = {2, 2, 2}};
      const double busy = busy_ms(one);
      EXPECT_NEAR(step_ms(one, 0, Norm::validated), busy, relative * busy) << schedule << p;
      const double waits = (p - 1) * one.stage_ms.f;
      EXPECT_NEAR(step_ms(one) - busy, waits, relative * busy) << schedule << p;
      const double sends = step_ms(one, .05, Norm::unknown);
      EXPECT_NEAR(step_ms(one, .05, Norm::validated), sends, relative * busy) << schedule << p;
    }
}

TEST(ProfiledInterleaved, DividesTheBubbleByItsStages) {
  for (const int p : {2, 4}) {
    for (const std::int64_t v : {2, 4}) {
      const ProfiledPipeline one{"interleaved", p, 8, v};
      const double share = (p - 1.0) / (static_cast<double>(8 * v) + p - 1.0);
      EXPECT_NEAR(1 - busy_ms(one) / step_ms(one), share, relative) << p << v;
    }
  }
}

TEST(ProfiledPipelinesOfRealRanks, AreRefused) {
  ExperimentConfig config = tiny("gpt");
  config.mesh.pipeline = 2;
  config.pipeline.profile.f = 1;
  try {
    plan_training(config, "ddp", 2);
    FAIL() << "it is planned";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("pipeline.profile"), std::string::npos);
  }
}

/// A pipeline of 4 ranks without a profile. Its middle stages have 4 alike blocks each, unless
/// ranks have several stages.
RunPlan plan_of_memory(const pipeline::MakerInfo& row, std::int64_t micro_batches) {
  ExperimentConfig config = testing::simulated(tiny("gpt"), small_cluster(4));
  config.model.layers = 14;
  config.model.width = 32;
  config.train.global_batch = micro_batches;
  config.train.accumulation = micro_batches;
  config.mesh.pipeline = 4;
  config.pipeline.schedule = row.name;
  config.pipeline.chunks = usual_chunks(row);
  config.pipeline.cuts = row.chunks == pipeline::MakerInfo::Chunks::two
                             ? std::vector<std::int64_t>{2, 4, 6, 8, 10, 12, 14}
                             : std::vector<std::int64_t>{4, 8, 12};
  return plan_training(config, "ddp", 4);
}

TEST(SimulatedPipelines, HaveAsManyMicroBatchesUnderWayAsTheirFormulasSay) {
  constexpr std::int64_t m = 8;
  for (const pipeline::MakerInfo& row : pipeline::maker_rows()) {
    const RunRecord record = simulated_row(plan_of_memory(row, m));
    std::size_t stages = 0;
    for (const RankRecord& rank : record.ranks) {
      ASSERT_TRUE(rank.pipeline);
      for (const StageRecord& stage : rank.pipeline->stages) {
        EXPECT_EQ(stage.most_under_way,
                  row.in_flight(4, usual_chunks(row), m, static_cast<int>(stage.stage)))
            << row.name << ", stage " << stage.stage;
        ++stages;
      }
    }
    EXPECT_EQ(stages, 4U * static_cast<std::size_t>(usual_chunks(row))) << row.name;
  }
}

/// Bytes of activations that the second stage keeps for the backward of a micro-batch.
std::int64_t activations_of_micro_batch(const RunPlan& plan) {
  CountingDevice device;
  Model model = make_model(plan.model, device);
  SideValues side(model.edges.size());
  std::vector<Saved> saved(model.units.size(), Saved(side));
  Tensor x = device.tensor({plan.train.micro_batch, plan.model.context, plan.model.width},
                           MemoryKind::activation);
  for (auto u = static_cast<std::size_t>(plan.pipeline.cuts[0]);
       u < static_cast<std::size_t>(plan.pipeline.cuts[1]); ++u) {
    Unit& unit = *model.units[u];
    const Shape whole = {unit.layout().count()};
    unit.bind(device.tensor(whole, MemoryKind::parameter),
              device.tensor(whole, MemoryKind::gradient));
    x = unit.forward(x, {}, saved[u]);
  }
  x = {};
  return device.ledger().current()[MemoryKind::activation];
}

std::int64_t activations_of_second_rank(const RunRecord& record) {
  return record.ranks.at(1).at_peak[MemoryKind::activation];
}

/// Where backward is split, a micro-batch holds less between its halves (pipeline_figures_test.cc).
TEST(SimulatedPipelines, HoldTheActivationsOfTheMicroBatchesUnderWay) {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    const pipeline::MakerInfo& row = pipeline::find_maker(schedule);
    const RunPlan plan = plan_of_memory(row, 8);
    const std::int64_t held = row.in_flight(4, 1, 8, 1) * activations_of_micro_batch(plan);
    // Values that come and go between stages, and those of the unit that is computed.
    const std::int64_t border = 4 * plan.train.micro_batch * plan.model.context * plan.model.width;
    const std::int64_t peak = activations_of_second_rank(simulated_row(plan));
    EXPECT_GE(peak, held) << schedule;
    EXPECT_LE(peak, held + 6 * border) << schedule;
  }
}

TEST(SimulatedPipelines, HoldOfEveryFurtherMicroBatchOfGpipeItsActivations) {
  const pipeline::MakerInfo& gpipe = pipeline::find_maker("gpipe");
  const RunPlan few = plan_of_memory(gpipe, 4), many = plan_of_memory(gpipe, 12);
  EXPECT_EQ(activations_of_second_rank(simulated_row(many)) -
                activations_of_second_rank(simulated_row(few)),
            8 * activations_of_micro_batch(few));
}

/// The algorithms of all-reduces that workers of one stage take.
std::vector<Algorithm> algorithms_of_stage(const RunPlan& plan) {
  const RunPlan view = data_view(plan, 0);
  return peer::chosen(view, peer::Collective::Kind::all_reduce, {1 << 8, 1 << 16, 1 << 24},
                      peer::some_workers(view.world));
}

/// A stage of `data` x 2 workers on two machines, as are those of a run without a pipeline whose
/// machines have half as many devices.
TEST(SimulatedPipelines, ChooseAlgorithmsForTheMachinesOfTheirStage) {
  ExperimentConfig config = testing::simulated(tiny("gpt"), small_cluster(2));
  config.cluster->machines = 2;
  const std::vector<Algorithm> across = algorithms_of_stage(plan_training(config, "ddp", 4));
  config.cluster->devices = 4;
  const std::vector<Algorithm> within = algorithms_of_stage(plan_training(config, "ddp", 4));
  ASSERT_NE(across, within);
  config.mesh = {.pipeline = 2, .innermost = MeshDimension::pipeline};
  EXPECT_EQ(algorithms_of_stage(plan_training(config, "ddp", 8)), across);
  config.mesh.innermost = MeshDimension::data;
  EXPECT_EQ(algorithms_of_stage(plan_training(config, "ddp", 8)), within);
}

/// What a run says that it has chosen is what such a stage takes.
TEST(SimulatedPipelines, TellTheAlgorithmsOfTheirStages) {
  ExperimentConfig config = testing::simulated(tiny("gpt"), small_cluster(4));
  config.cluster->machines = 2;
  config.mesh = {.pipeline = 2, .innermost = MeshDimension::pipeline};
  config.scheme_options["ddp"] = peer::DdpOptions{.algorithm = Algorithm::automatic};
  const RunPlan plan = plan_training(config, "ddp", 8);
  const RunRecord row = simulated_row(plan);
  const std::vector<Algorithm> all = algorithms_of_stage(plan);
  ASSERT_FALSE(row.figures.empty());
  for (const RunFigure& figure : row.figures)
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](Algorithm one) {
      return figure.name == fmt::format("buckets by {}", name_of(one));
    })) << figure.name;
}

/// Workers of machine 1 compute a third as fast, and those of machine 0 wait for them to gather
/// parameters: that is no time of the stage.
TEST(SimulatedPipelines, CountNoWaitsForWorkersOfTheirOwnStageAsTimeOfTheStage) {
  ExperimentConfig config = testing::simulated(tiny("gpt"), small_cluster(2));
  config.cluster->machines = 2;
  config.model.width = 64;
  config.train.global_batch = 16;
  config.train.accumulation = 4;
  config.mesh = {.pipeline = 2, .innermost = MeshDimension::pipeline};
  const auto ranks = [&config] { return simulated_row(plan_training(config, "fsdp", 4)).ranks; };
  const auto alike = ranks();
  config.cluster->slow = {{.machine = 1, .factor = 3}};
  const auto uneven = ranks();
  for (std::size_t r = 0; r < 4; ++r) {
    const double factor = r < 2 ? 1 : 3;
    const StageRecord &before = alike[r].pipeline->stages.at(0),
                      &now = uneven[r].pipeline->stages.at(0);
    EXPECT_NEAR(now.forward_ms, factor * before.forward_ms, relative * now.forward_ms) << r;
    EXPECT_NEAR(now.backward_ms, factor * before.backward_ms, relative * now.backward_ms) << r;
  }
}

/// The executor and the numbers are those of real ranks.
TEST(SimulatedPipelines, WithNumericsAreTheRunOfSingle) {
  for (const pipeline::MakerInfo& row : pipeline::maker_rows()) {
    ExperimentConfig config = tiny("gpt");
    config.model.layers = 6;
    config.train.global_batch = 16;
    config.train.accumulation = 4;
    config.train.reduce = Reduce::last;
    const RunRecord single = reference_of(config, 2);
    config = testing::simulated(config, small_cluster(4));
    config.sim.numerics = true;
    config.mesh.pipeline = 2;
    config.pipeline.schedule = row.name;
    config.pipeline.chunks = row.chunks == pipeline::MakerInfo::Chunks::one ? 1 : 2;
    for (const char* scheme : {"ddp", "fsdp"}) {
      const RunRecord record = simulated_row(plan_training(config, scheme, 4));
      EXPECT_EQ(record.parameter_hashes, single.parameter_hashes) << row.name << ' ' << scheme;
      EXPECT_EQ(record.loss, single.loss) << row.name << ' ' << scheme;
    }
  }
}

/// At several bounds, of which some clip the whole model's gradients but not those of rank 0.
TEST(SimulatedPipelines, WithOptimizersThatGoAheadAreTheRunOfSingle) {
  std::int64_t put_right = 0;
  for (const double clip_norm : {0.5, 0.7, 1.0, 1.4, 2.0}) {
    ExperimentConfig config = tiny("gpt");
    config.model.layers = 6;
    config.train.global_batch = 16;
    config.train.accumulation = 4;
    config.train.reduce = Reduce::last;
    config.train.warmup = 0;  // before its end updates are validated at once
    config.optimizer.clip_norm = clip_norm;
    const RunRecord single = reference_of(config, 2);
    config = testing::simulated(config, small_cluster(4));
    config.sim.numerics = true;
    config.mesh.pipeline = 2;
    config.pipeline.schedule = "zb_h2";
    config.pipeline.post_validation = true;
    const RunRecord record = simulated_row(plan_training(config, "zero1", 4));
    EXPECT_EQ(record.parameter_hashes, single.parameter_hashes) << clip_norm;
    EXPECT_EQ(record.loss, single.loss) << clip_norm;
    put_right += record.ranks[0].pipeline->put_right;
  }
  EXPECT_GT(put_right, 0);
}

}  // namespace
}  // namespace ringside::runner
