// Pipelines in a simulated cluster: times by a profile of their stages, and the bits of `single`.
#include <gtest/gtest.h>

#include <cmath>

#include "core/pipeline/makers.h"
#include "core/pipeline/simulation.h"
#include "core/plan/pipeline_plan.h"
#include "experiments/runner/run/simulation.h"
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

  const pipeline::MakerInfo& row() const { return pipeline::find_maker(schedule); }
  int stages_of_rank() const {
    return row().chunks == pipeline::MakerInfo::Chunks::any ? static_cast<int>(chunks)
                                                            : usual_chunks(row());
  }
};

void PrintTo(const ProfiledPipeline& one, std::ostream* out) {
  *out << fmt::format("{} {}x{} {}", one.schedule, one.ranks, one.chunks, one.micro_batches);
}

/// Seconds of a stage.
constexpr pipeline::StageTimes stage_s{.f = 3, .b = 2, .w = 1};
constexpr double relative = 1e-9;

RunPlan profiled_plan(const ProfiledPipeline& one, double send_s, bool waits_at_end) {
  ExperimentConfig config = testing::simulated(tiny("gpt"), small_cluster(8));
  config.model.layers = 14;
  config.model.width = 16;
  config.train.steps = 4;
  config.train.warmup = 2;
  config.train.timeout_s = 1e6;
  config.train.global_batch = one.micro_batches;
  config.train.accumulation = one.micro_batches;
  config.optimizer.clip_norm = waits_at_end ? 1 : 0;  // the norm of all stages
  config.mesh.pipeline = one.ranks;
  config.pipeline.schedule = one.schedule;
  config.pipeline.chunks = one.chunks;
  config.pipeline.profile = {
      .f = 1e3 * stage_s.f, .b = 1e3 * stage_s.b, .w = 1e3 * stage_s.w, .send = 1e3 * send_s};
  return plan_training(config, "ddp", one.ranks);
}

RunRecord simulated_row(const RunPlan& plan) {
  return make_row(plan, simulate(plan, [](const Progress&) {}));
}

/// Seconds of a step in which ranks wait for each other at its end, or do not.
double step_s(const ProfiledPipeline& one, double send_s = 0, bool waits_at_end = true) {
  return 1e-3 * simulated_row(profiled_plan(one, send_s, waits_at_end)).step_ms.median;
}

/// Seconds for which every rank computes.
double busy_s(const ProfiledPipeline& one) {
  return static_cast<double>(one.micro_batches * one.stages_of_rank()) *
         (stage_s.f + stage_s.b + stage_s.w);
}

class ProfiledPipelines : public ::testing::TestWithParam<ProfiledPipeline> {};

TEST_P(ProfiledPipelines, HaveTheBubbleOfTheirPaper) {
  const ProfiledPipeline& one = GetParam();
  const double bubble = one.row().bubble(one.ranks, one.stages_of_rank(), one.micro_batches,
                                         stage_s.f, stage_s.b, stage_s.w);
  const double expected = busy_s(one) * (1 + bubble);
  EXPECT_NEAR(step_s(one), expected, relative * expected);
}

TEST_P(ProfiledPipelines, AreIdleAsTheirPaperSaysIfNoRankWaitsAtTheEnd) {
  const ProfiledPipeline& one = GetParam();
  const double idle = one.row().idle(one.ranks, one.stages_of_rank(), one.micro_batches, stage_s.f,
                                     stage_s.b, stage_s.w);
  if (std::isnan(idle)) GTEST_SKIP() << "there is no formula";
  const double expected = busy_s(one) + idle;
  EXPECT_NEAR(step_s(one, 0, /*waits_at_end=*/false), expected, relative * expected);
}

TEST_P(ProfiledPipelines, TakeWithSendsWhatTheCriticalPathTakes) {
  const ProfiledPipeline& one = GetParam();
  constexpr double send_s = 0.7;
  const pipeline::Schedule schedule = schedule_of(profiled_plan(one, send_s, true));
  const double expected = simulate(schedule, equal_times(schedule, stage_s, send_s)).whole_s;
  EXPECT_NEAR(step_s(one, send_s), expected, relative * expected);
}

std::vector<ProfiledPipeline> profiled_pipelines() {
  std::vector<ProfiledPipeline> out;
  for (const int ranks : {2, 4, 8}) {
    for (const std::int64_t m : {8, 16, 24}) {
      for (const char* schedule : {"gpipe", "1f1b", "zb_h1", "zb_h2", "zb_v"})
        out.push_back({schedule, ranks, m});
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
        EXPECT_NEAR(1 - busy_s(one) / step_s(one), share, relative) << schedule << p << m;
      }
}

TEST(ProfiledInterleaved, DividesTheBubbleByItsStages) {
  for (const int p : {2, 4}) {
    for (const std::int64_t v : {2, 4}) {
      const ProfiledPipeline one{"interleaved", p, 8, v};
      const double share = (p - 1.0) / (static_cast<double>(8 * v) + p - 1.0);
      EXPECT_NEAR(1 - busy_s(one) / step_s(one), share, relative) << p << v;
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
    config.pipeline.chunks = row.chunks == pipeline::MakerInfo::Chunks::any ? 2 : 1;
    for (const char* scheme : {"ddp", "fsdp"}) {
      const RunRecord record = simulated_row(plan_training(config, scheme, 4));
      EXPECT_EQ(record.parameter_hashes, single.parameter_hashes) << row.name << ' ' << scheme;
      EXPECT_EQ(record.loss, single.loss) << row.name << ' ' << scheme;
    }
  }
}

}  // namespace
}  // namespace ringside::runner
