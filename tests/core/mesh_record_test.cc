// Records of runs whose workers have different stages of the model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/options.h"
#include "core/observe/run_record.h"
#include "core/plan/mesh.h"
#include "core/plan/slices.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct StagedOptions {
  bool any = false;
};
Fields fields_of(StagedOptions& options) { return {{"any", &options.any, ""}}; }

/// Two pipelines of two stages.
RunPlan staged_plan(MeshDimension innermost) {
  RunPlan plan;
  plan.id = "ddp-w4-r0";
  plan.scheme = "ddp";
  plan.options = StagedOptions{};
  plan.world = 4;
  plan.mesh = {.data = 2, .pipeline = 2, .innermost = innermost};
  plan.pipeline.cuts = {3};
  plan.train.steps = 3;
  plan.train.warmup = 1;
  plan.train.global_batch = 8;
  plan.train.accumulation = 2;
  plan.train.micro_batch = 2;
  for (int worker = 0; worker < 4; ++worker) plan.ranks.push_back({worker, worker, -1});
  return plan;
}

/// The records of its ranks: losses come from last stages alone, and hashes from first stages.
std::vector<RankRecord> staged_records(const RunPlan& plan) {
  std::vector<RankRecord> out(4);
  for (int r = 0; r < 4; ++r) {
    RankRecord& rank = out[static_cast<std::size_t>(r)];
    const MeshPlace place = mesh_place(plan, r);
    rank.rank = r;
    rank.role = "worker";
    rank.parameters = 100;
    rank.tokens_per_sample = 5;
    for (int step = 0; step < 3; ++step) rank.steps.emplace_back().total = 0.5;
    if (place.pipeline == 0) {
      rank.parameter_hashes = {"whole"};
    } else {
      rank.losses = {1, 2, 3, 4, 5, 6};
      rank.evaluations = {{3, 2 * place.data, {{0.25, 0.25, 0.5}, {0.25, 0.25, 0.125}}, 0.25}};
    }
  }
  return out;
}

class MeshRecords : public ::testing::TestWithParam<MeshDimension> {};

TEST_P(MeshRecords, CountTheSamplesOfAPipelineOnce) {
  const RunPlan plan = staged_plan(GetParam());
  const RunRecord row = make_row(plan, staged_records(plan));
  // Two measured steps of 8 samples in a second.
  EXPECT_DOUBLE_EQ(row.samples_per_s, 16);
  EXPECT_DOUBLE_EQ(row.tokens_per_s, 80);
  EXPECT_EQ(row.parameters, 100);
  EXPECT_DOUBLE_EQ(row.time_ms.idle, 500);
}

TEST_P(MeshRecords, HaveTheLossesOfTheLastStages) {
  const RunPlan plan = staged_plan(GetParam());
  const RunRecord row = make_row(plan, staged_records(plan));
  EXPECT_THAT(row.loss, ElementsAre(2 * (1 + 2), 2 * (3 + 4), 2 * (5 + 6)))
      << "nothing has to be made up for";
  ASSERT_EQ(row.evaluations.size(), 1u);
  EXPECT_DOUBLE_EQ(row.evaluations[0].loss, 1);
  EXPECT_DOUBLE_EQ(row.evaluations[0].accuracy, 1.25);
}

TEST_P(MeshRecords, HaveOneHashOfEachPipeline) {
  const RunPlan plan = staged_plan(GetParam());
  std::vector<RankRecord> records = staged_records(plan);
  const RunRecord row = make_row(plan, records);
  EXPECT_THAT(row.parameter_hashes, ElementsAre("whole"));
  EXPECT_EQ(row.at_end.shown_by, 2);
  EXPECT_THAT(row.at_end.differing, IsEmpty());
  const int other = worker_at(plan, {1, 0});
  records[static_cast<std::size_t>(other)].parameter_hashes = {"other"};
  EXPECT_THAT(make_row(plan, records).at_end.differing, ElementsAre(other));
}

TEST_P(MeshRecords, ComeBackFromJson) {
  const RunPlan plan = staged_plan(GetParam());
  const RunRecord row = make_row(plan, staged_records(plan));
  const auto defaults = [](const std::string&) -> Options { return StagedOptions{}; };
  EXPECT_EQ(row_from_json(nlohmann::json(to_json(row)), defaults).plan, plan);
}

TEST_P(MeshRecords, GiveAllStagesOfAPipelineTheSameSlices) {
  const RunPlan plan = staged_plan(GetParam());
  RunPlan plain = plan;
  plain.world = 2;
  plain.mesh = {.data = 1};
  for (int worker = 0; worker < 4; ++worker) {
    const int data = mesh_place(plan, worker).data;
    EXPECT_EQ(samples_of(plan, worker), 4);
    for (std::int64_t m = 0; m < 2; ++m)
      EXPECT_EQ(slice_of(plan, worker, 1, m), slice_of(plain, data, 1, m));
  }
  EXPECT_EQ(largest_micro_batch(plan), 2);
}

INSTANTIATE_TEST_SUITE_P(Innermost, MeshRecords,
                         ::testing::Values(MeshDimension::data, MeshDimension::pipeline));

}  // namespace
}  // namespace ringside
