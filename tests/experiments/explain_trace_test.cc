// The evidence that `explain` takes from traces: steps, waits, and the critical path.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/experiments/explain_made_up.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;

// ---- the trace

TEST(ExplainTrace, FindsWhatAWorkerDidInEachStep) {
  TwoRanks two(1);
  MadeUpStep second;
  second.at = 50;
  second.reduced = 70;
  for (RankRecord& record : two.records) {
    second.add_to(record);
    // An evaluation belongs to no step.
    record.slices.push_back({"data", "read batch", 80 * ms, 0});
    record.slices.push_back({"compute", "forward a", 80 * ms, 5 * ms});
    record.slices.push_back({"compute", "forward b", 85 * ms, 5 * ms});
  }
  const tools::explain::TracedRun run =
      tools::explain::traced_run(runner::read_trace(runner::trace(two.records)), two.plan);
  ASSERT_EQ(run.workers.size(), 2u);
  ASSERT_EQ(run.workers[1].steps.size(), 2u);
  EXPECT_EQ(run.steps(), 4u);
  const tools::explain::TracedStep& last = run.workers[1].steps[1];
  EXPECT_NEAR(last.begin_ms, 50, 1e-6);
  EXPECT_NEAR(last.end_ms, 71, 1e-6);
  EXPECT_NEAR(ms_of(last, Activity::compute), 12, 1e-6);
  EXPECT_NEAR(ms_of(last, Activity::exposed), 8, 1e-6);
}

TEST(ExplainTrace, OfSlicesWithinASliceTheOuterOneCounts) {
  TwoRanks two(1);
  two.records[0].slices.push_back({"exposed", "reply", 13 * ms, 1 * ms});
  two.records[0].slices.push_back({"compute", "kernel", 1 * ms, 0.5 * ms});
  const tools::explain::TracedRun run =
      tools::explain::traced_run(runner::read_trace(runner::trace(two.records)), two.plan);
  EXPECT_NEAR(ms_of(run.workers[0].steps[0], Activity::compute), 12, 1e-6);
  EXPECT_NEAR(ms_of(run.workers[0].steps[0], Activity::exposed), 3, 1e-6);
}

TEST(ExplainTrace, AWaitDividesTheSliceAroundIt) {
  RankRecord rank;
  rank.role = "worker";
  rank.slices = {{"step", "step 1", 0, 20 * ms},
                 {"compute", "forward model", 0, 20 * ms},
                 {"exposed", "wait all-gather a", 0, 2 * ms},
                 {"exposed", "wait all-gather b", 8 * ms, 3 * ms},
                 {"exposed", "within b", 9 * ms, 1 * ms},
                 {"exposed", "wait all-gather c", 19 * ms, 1 * ms}};
  const RunPlan plan = runner::plan_training(made_up_experiment(), "independent", 1);
  const tools::explain::TracedRun run =
      tools::explain::traced_run(runner::read_trace(runner::trace({rank})), plan);
  ASSERT_EQ(run.steps(), 1u);
  const tools::explain::TracedStep& step = run.workers[0].steps[0];
  EXPECT_NEAR(ms_of(step, Activity::exposed), 6, 1e-6);
  EXPECT_NEAR(ms_of(step, Activity::compute), 14, 1e-6);
  EXPECT_EQ(step.main.size(), 5u);
}

TEST(ExplainTrace, LeavesOutWhatIsOfNoWorker) {
  const TwoRanks two(1);
  nlohmann::json events = runner::trace(two.records);
  nlohmann::json& list = events["traceEvents"];
  const auto add = [&](const nlohmann::json& event) { list.push_back(event); };
  add({{"ph", "C"}, {"pid", 0}, {"name", "memory"}, {"ts", 1}, {"args", {{"gradient", 5}}}});
  add({{"ph", "s"}, {"pid", 0}, {"tid", 1}, {"id", 3}, {"name", "bucket"}, {"ts", 1}});
  add({{"ph", "X"},
       {"pid", 0},
       {"tid", 0},
       {"cat", "launch"},
       {"name", "launch all-reduce"},
       {"ts", 0},
       {"dur", 9000}});
  add({{"ph", "M"},
       {"pid", 0},
       {"tid", 9},
       {"name", "thread_name"},
       {"args", {{"name", "serving"}}}});
  add({{"ph", "X"},
       {"pid", 0},
       {"tid", 9},
       {"cat", "optimizer"},
       {"name", "update"},
       {"ts", 500},
       {"dur", 9000}});
  const tools::explain::TracedRun run =
      tools::explain::traced_run(runner::read_trace(events), two.plan);
  EXPECT_NEAR(ms_of(run.workers[0].steps[0], Activity::optimizer), 1, 1e-6);
  EXPECT_EQ(run.workers[0].steps[0].main.size(), 6u);
}

// ---- waits and the critical path

TEST(ExplainWaits, AreDividedWhereTheLastRankComes) {
  const TwoRanks two(2);  // 12 ms of compute, and 20
  const Staged staged = two.staged();
  const std::vector<tools::explain::Wait>& waits = staged.evidence.waits;
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0].kind, tools::explain::WaitFor::reduction);
  EXPECT_NEAR(waits[0].for_last_rank_ms(), 8, 1e-6);
  EXPECT_NEAR(waits[0].transfer_ms(), 3, 1e-6);
  ASSERT_TRUE(waits[0].last);
  EXPECT_EQ(waits[0].last->rank, 1);
  EXPECT_NEAR(waits[1].for_last_rank_ms(), 0, 1e-6) << "nobody waits for itself";
  EXPECT_NEAR(waits[1].transfer_ms(), 3, 1e-6);
}

TEST(ExplainWaits, ARankThatIsNotTracedMayBeTheLastOne) {
  TwoRanks two(2);
  two.records[1].slices.clear();
  const Staged staged = two.staged();
  ASSERT_EQ(staged.evidence.waits.size(), 1u);
  EXPECT_FALSE(staged.evidence.waits[0].last);
}

TEST(ExplainWaits, AreForRanksOfTheSameStageAlone) {
  TwoRanks two(2);
  two.plan.mesh = {.data = 1, .pipeline = 2};  // each all-reduce has one rank, whatever its name
  for (const tools::explain::Wait& wait : two.staged().evidence.waits) EXPECT_FALSE(wait.last);
}

TEST(ExplainPath, GoesThroughTheRankThatCameLast) {
  const Staged staged = TwoRanks(2).staged();
  double all = 0;
  std::vector<std::string> parts;
  for (const tools::explain::PathPart& part : staged.evidence.path) {
    all += part.ms;
    parts.push_back(fmt::format("{} {}", part.name, part.rank));
  }
  EXPECT_NEAR(all, 24, 1e-6) << "20 of compute on rank 1, 3 of the all-reduce, 1 of the optimizer";
  EXPECT_THAT(parts, ElementsAre("forward a 1", "forward b 1", "backward b 1", "backward a 1",
                                 "all-reduce bucket 0 0", "optimizer 0"));
  const std::vector<tools::explain::PathPart> sums = tools::explain::added_up(staged.evidence.path);
  ASSERT_EQ(sums.size(), 3u);
  EXPECT_EQ(sums[0].activity, "compute");
  EXPECT_EQ(sums[0].rank, 1);
  EXPECT_NEAR(sums[0].ms, 20, 1e-6);
  EXPECT_EQ(sums[1].name, "all-reduce");
}

TEST(ExplainPath, GoesThroughTheQueueOfACommunicator) {
  // Bucket 1 is ready at 9, but bucket 0, ready at 4, is under way until 14.
  RankRecord rank;
  rank.role = "worker";
  rank.slices = {{"step", "step 1", 0, 17 * ms},
                 {"compute", "forward a", 0, 2 * ms},
                 {"compute", "backward b", 2 * ms, 2 * ms},
                 {"communication", "all-reduce bucket 0", 4 * ms, 10 * ms},
                 {"compute", "backward a", 4 * ms, 5 * ms},
                 {"communication", "all-reduce bucket 1", 9 * ms, 8 * ms},
                 {"exposed", "wait all-reduce bucket 0", 9 * ms, 5 * ms},
                 {"exposed", "wait all-reduce bucket 1", 14 * ms, 3 * ms}};
  RankRecord other = rank;
  other.rank = 1;
  const RunPlan plan = runner::plan_training(made_up_experiment(), "ddp", 2);
  const tools::explain::TracedRun run =
      tools::explain::traced_run(runner::read_trace(runner::trace({rank, other})), plan);
  std::vector<std::string> parts;
  for (const tools::explain::PathPart& part :
       tools::explain::critical_path(run, tools::explain::Collectives(run, plan), 17))
    parts.push_back(fmt::format("{} {:.0f}", part.name, part.ms));
  EXPECT_THAT(parts, ElementsAre("forward a 2", "backward b 2", "all-reduce bucket 0 10",
                                 "all-reduce bucket 1 3"));
}

}  // namespace
}  // namespace ringside
