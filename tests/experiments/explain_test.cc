// What `explain` finds in rows and traces that are made up, so that each figure is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "tests/experiments/explain_stages.h"
#include "tests/experiments/made_up_rows.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr double ms = 1e-3;  // slices are in seconds

/// A training step of one rank as its slices, which begin at `at` ms: forward and backward of two
/// units, an all-reduce of a bucket that lasts until `reduced`, and the optimizer.
struct MadeUpStep {
  double at = 0, forward = 2, backward = 4;  // of each unit
  double reduced = 20;                       // in ms, absolute: on all ranks the same
  double optimizer = 1;

  double backward_end() const { return at + 2 * forward + 2 * backward; }
  double end() const { return std::max(reduced, backward_end()) + optimizer; }
  void add_to(RankRecord& rank) const {
    const auto add = [&](const char* activity, const char* name, double begin, double end) {
      rank.slices.push_back({activity, name, begin * ms, (end - begin) * ms});
    };
    add("data", "read batch", at, at);
    add("compute", "forward a", at, at + forward);
    add("compute", "forward b", at + forward, at + 2 * forward);
    add("compute", "backward b", at + 2 * forward, at + 2 * forward + backward);
    add("compute", "backward a", at + 2 * forward + backward, backward_end());
    add("communication", "all-reduce bucket 0", backward_end(), reduced);
    add("exposed", "wait all-reduce bucket 0", backward_end(), reduced);
    add("optimizer", "optimizer", reduced, reduced + optimizer);
  }
};

/// Two ranks of `ddp` that do one traced step; the second rank's backward takes `slower` times as
/// long. Their all-reduce takes 3 ms once both are there.
struct TwoRanks {
  RunPlan plan = plan_training(made_up_experiment(), "ddp", 2);
  std::vector<RankRecord> records;

  explicit TwoRanks(double slower) {
    MadeUpStep fast, slow;
    slow.backward *= slower;
    fast.reduced = slow.reduced = slow.backward_end() + 3;
    for (const MadeUpStep& step : {fast, slow}) {
      RankRecord& record = records.emplace_back();
      record.rank = static_cast<int>(records.size()) - 1;
      record.role = "worker";
      record.parameters = 1000;
      record.bytes_sent_per_step = 4000;
      record.minimum_bytes_per_step = 4000;
      step.add_to(record);
      for (int i = 0; i < 3; ++i) {
        StepTime& time = record.steps.emplace_back();
        time.total = step.end() * ms;
        time.by_activity[static_cast<std::size_t>(Activity::compute)] = step.backward_end() * ms;
        time.by_activity[static_cast<std::size_t>(Activity::communication)] =
            (step.reduced - step.backward_end()) * ms;
        time.by_activity[static_cast<std::size_t>(Activity::exposed)] =
            (step.reduced - step.backward_end()) * ms;
        time.by_activity[static_cast<std::size_t>(Activity::optimizer)] = ms;
      }
    }
  }
  Staged staged() const { return evidence_of_records(plan, records); }
};

std::vector<std::string> causes_found(const Evidence& evidence) {
  std::vector<std::string> names;
  for (const Finding& finding : findings_of(evidence)) names.push_back(finding.cause);
  return names;
}

/// Evidence without a trace, whose parts of a step add up.
Staged row_evidence(const std::string& scheme, int world, const StepParts& parts) {
  Staged out;
  ExperimentConfig config = made_up_experiment();
  config.train.global_batch = 4;
  config.train.micro_batch = 4;
  out.row = std::make_unique<Row>();
  Row& row = *out.row;
  row.plan = plan_training(config, scheme, world);
  row.ranks.resize(row.plan.ranks.size());
  for (std::size_t r = 0; r < row.ranks.size(); ++r) row.ranks[r].rank = static_cast<int>(r);
  row.parameters = 1'000'000;
  row.step_ms.median = parts.step;
  row.time_ms.compute = parts.compute;
  row.time_ms.communication = parts.communication;
  row.time_ms.exposed = parts.exposed;
  row.time_ms.optimizer = parts.optimizer;
  row.time_ms.serving_optimizer = parts.serving_optimizer;
  row.time_ms.data = parts.data;
  row.time_ms.idle = parts.idle;
  for (RankRecord& rank : row.ranks) rank.bytes_sent_per_step = rank.bytes_received_per_step = 1e6;
  row.bytes_minimum_per_step = 1e6;
  out.evidence = evidence_of_case(summarise({row}).front(), {out.row.get()}, "no folder");
  return out;
}

// ---- the trace

TEST(ExplainTrace, CutsMainThreadsIntoSteps) {
  TwoRanks two(1);
  MadeUpStep second;
  second.at = 50;
  second.reduced = 70;
  for (RankRecord& record : two.records) {
    second.add_to(record);
    // An evaluation has forwards without backwards, and belongs to no step.
    record.slices.push_back({"data", "read batch", 80 * ms, 0});
    record.slices.push_back({"compute", "forward a", 80 * ms, 5 * ms});
    record.slices.push_back({"compute", "forward b", 85 * ms, 5 * ms});
  }
  const TracedRun run = traced_run(trace(two.records), two.plan);
  ASSERT_EQ(run.workers.size(), 2u);
  ASSERT_EQ(run.workers[1].steps.size(), 2u);
  EXPECT_EQ(run.steps(), 4u);
  const TracedStep& last = run.workers[1].steps[1];
  EXPECT_NEAR(last.begin_ms, 50, 1e-6);
  EXPECT_NEAR(last.end_ms, 71, 1e-6);
  EXPECT_NEAR(ms_of(last, Activity::compute), 12, 1e-6);
  EXPECT_NEAR(ms_of(last, Activity::exposed), 8, 1e-6);
}

TEST(ExplainTrace, AStepHasAsManyPassesAsMicroBatches) {
  TwoRanks two(1);
  MadeUpStep second;
  second.at = 50;
  second.reduced = 70;
  for (RankRecord& record : two.records) second.add_to(record);
  two.plan.train.accumulation = 2;
  const TracedRun run = traced_run(trace(two.records), two.plan);
  EXPECT_EQ(run.steps(), 2u);
  EXPECT_NEAR(ms_of(run.workers[0].steps[0], Activity::compute), 24, 1e-6);
  two.plan.train.accumulation = 3;
  EXPECT_EQ(traced_run(trace(two.records), two.plan).steps(), 0u) << "no step is whole";
}

TEST(ExplainTrace, OfSlicesWithinASliceTheOuterOneCounts) {
  TwoRanks two(1);
  two.records[0].slices.push_back({"exposed", "reply", 15 * ms, 1 * ms});
  two.records[0].slices.push_back({"compute", "kernel", 1 * ms, 0.5 * ms});
  const TracedRun run = traced_run(trace(two.records), two.plan);
  EXPECT_NEAR(ms_of(run.workers[0].steps[0], Activity::compute), 12, 1e-6);
  EXPECT_NEAR(ms_of(run.workers[0].steps[0], Activity::exposed), 3, 1e-6);
}

TEST(ExplainTrace, LeavesOutWhatIsOfNoWorker) {
  const TwoRanks two(1);
  nlohmann::json events = trace(two.records);
  nlohmann::json& list = events["traceEvents"];
  const auto add = [&](const nlohmann::json& event) { list.push_back(event); };
  add({{"ph", "C"}, {"pid", 0}, {"name", "memory"}, {"ts", 1}, {"args", {{"gradient", 5}}}});
  add({{"ph", "s"}, {"pid", 0}, {"tid", 1}, {"id", 3}, {"name", "bucket"}, {"ts", 1}});
  add({{"ph", "X"},
       {"pid", 0},
       {"tid", 0},
       {"cat", "step"},
       {"name", "step 4"},
       {"ts", 0},
       {"dur", 99000}});
  add({{"ph", "M"},
       {"pid", 0},
       {"tid", 9},
       {"name", "thread_name"},
       {"args", {{"name", "server 0"}}}});
  add({{"ph", "X"},
       {"pid", 0},
       {"tid", 9},
       {"cat", "optimizer"},
       {"name", "update"},
       {"ts", 500},
       {"dur", 9000}});
  const TracedRun run = traced_run(events, two.plan);
  EXPECT_NEAR(ms_of(run.workers[0].steps[0], Activity::optimizer), 1, 1e-6);
  EXPECT_EQ(run.workers[0].steps[0].main.size(), 7u);
}

TEST(ExplainTrace, RefusesWhatIsNoTrace) {
  const testing::TemporaryFolder folder;
  const RunPlan plan = plan_training(made_up_experiment(), "ddp", 2);
  const auto refusal = [&](const std::filesystem::path& file) -> std::string {
    try {
      read_trace(file, plan);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_THAT(refusal(folder.path() / "none.json"), HasSubstr("none.json is not there"));
  EXPECT_THAT(refusal(folder.write("cut.json", "{\"traceEvents\": [")), HasSubstr("no JSON"));
  EXPECT_THAT(refusal(folder.write("other.json", "{}")), HasSubstr("no trace of a run"));
}

// ---- waits and the critical path

TEST(ExplainWaits, AreDividedWhereTheLastRankComes) {
  const TwoRanks two(2);  // 12 ms of compute, and 20
  const Staged staged = two.staged();
  const std::vector<Wait>& waits = staged.evidence.waits;
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0].kind, WaitFor::reduction);
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

TEST(ExplainPath, GoesThroughTheRankThatCameLast) {
  const Staged staged = TwoRanks(2).staged();
  double all = 0;
  std::vector<std::string> parts;
  for (const PathPart& part : staged.evidence.path) {
    all += part.ms;
    parts.push_back(fmt::format("{} {}", part.name, part.rank));
  }
  EXPECT_NEAR(all, 24, 1e-6) << "20 of compute on rank 1, 3 of the all-reduce, 1 of the optimizer";
  EXPECT_THAT(parts, ElementsAre("forward a 1", "forward b 1", "backward b 1", "backward a 1",
                                 "all-reduce bucket 0 0", "optimizer 0"));
  const std::vector<PathPart> sums = added_up(staged.evidence.path);
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
  rank.slices = {{"compute", "forward a", 0, 2 * ms},
                 {"compute", "backward b", 2 * ms, 2 * ms},
                 {"communication", "all-reduce bucket 0", 4 * ms, 10 * ms},
                 {"compute", "backward a", 4 * ms, 5 * ms},
                 {"communication", "all-reduce bucket 1", 9 * ms, 8 * ms},
                 {"exposed", "wait all-reduce bucket 0", 9 * ms, 5 * ms},
                 {"exposed", "wait all-reduce bucket 1", 14 * ms, 3 * ms}};
  RankRecord other = rank;
  other.rank = 1;
  const RunPlan plan = plan_training(made_up_experiment(), "ddp", 2);
  const TracedRun run = traced_run(trace({rank, other}), plan);
  std::vector<std::string> parts;
  for (const PathPart& part : critical_path(run, Collectives(run, plan), 17))
    parts.push_back(fmt::format("{} {:.0f}", part.name, part.ms));
  EXPECT_THAT(parts, ElementsAre("forward a 2", "backward b 2", "all-reduce bucket 0 10",
                                 "all-reduce bucket 1 3"));
}

// ---- causes, on both sides of what it takes to name them

TEST(ExplainCauses, ASlowRankIsATenthSlowerAndOthersWait) {
  const Staged slow = TwoRanks(2).staged();
  const std::vector<Finding> found = findings_of(slow.evidence);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].cause, "a slow rank");
  EXPECT_NEAR(found[0].ms, 8, 1e-6);
  EXPECT_THAT(found[0].sentence, AllOf(HasSubstr("Rank 1 is slow"), HasSubstr("20.0 ms"),
                                       HasSubstr("1.67 times"), HasSubstr("12.0 ms")));
  // 5% more compute is what two steps of equal ranks differ by.
  EXPECT_THAT(causes_found(TwoRanks(1.07).staged().evidence),
              Not(::testing::Contains("a slow rank")));
}

TEST(ExplainCauses, ARankWithMoreSamplesIsNotSlow) {
  TwoRanks two(2);
  two.plan.train.global_batch = 30;
  two.plan.train.micro_batch = 19;
  two.plan.train.shares = Shares::given;
  two.plan.train.weights = {11, 19};
  const Staged staged = two.staged();
  EXPECT_EQ(causes_found(staged.evidence).front(), "uneven shares");
  EXPECT_THAT(findings_of(staged.evidence).front().sentence,
              AllOf(HasSubstr("Rank 1 has 19 samples"), HasSubstr("11 in the median")));
}

TEST(ExplainCauses, OneBucketForAllWithoutATrace) {
  // 4 MB of gradients; the bucket has 25.
  const Staged one = row_evidence(
      "ddp", 2, {.step = 20, .compute = 12, .communication = 7, .exposed = 7, .optimizer = 1});
  const std::vector<Finding> found = findings_of(one.evidence);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].cause, "one bucket for all");
  EXPECT_NEAR(found[0].ms, 7, 1e-6) << "backward, 8 ms, could hide all of it";
  EXPECT_THAT(found[0].sentence, HasSubstr("All gradients (4 MB) are one bucket"));

  const Staged long_one = row_evidence(
      "ddp", 2, {.step = 33, .compute = 12, .communication = 20, .exposed = 20, .optimizer = 1});
  for (const Finding& finding : findings_of(long_one.evidence)) {
    if (finding.cause == "one bucket for all") {
      EXPECT_NEAR(finding.ms, 8, 1e-6) << "backward has no more";
    }
  }
  EXPECT_THAT(causes_found(long_one.evidence),
              ::testing::Contains("communication longer than compute"));
}

TEST(ExplainCauses, NothingStandsOutWhereNothingDoes) {
  const Staged sound = row_evidence(
      "ddp", 2, {.step = 20, .compute = 18.2, .communication = 6, .exposed = 0.8, .optimizer = 1});
  EXPECT_THAT(causes_found(sound.evidence), IsEmpty());
  const Explanation explanation = explanation_of(sound.evidence, {}, {}, Detail::full);
  EXPECT_THAT(explanation_text(explanation, {}, Detail::full),
              AllOf(HasSubstr("Nothing stands out"), HasSubstr("5.2 ms are hidden"),
                    HasSubstr("the least that its scheme needs")));
}

TEST(ExplainCauses, ATinyBatchTakesLessThanAQuarterOfItsStep) {
  const auto found = [](double compute) {
    return causes_found(
        row_evidence("single", 1, {.step = 10, .compute = compute, .optimizer = 10 - compute})
            .evidence);
  };
  EXPECT_THAT(found(2.4), ElementsAre("a tiny batch"));
  EXPECT_THAT(found(2.6), IsEmpty());
}

TEST(ExplainCauses, MoreThreadsThanCoresOnlyWhereTheCoresAreBusy) {
  const StepParts parts{.step = 20, .compute = 18, .optimizer = 2};
  const auto found = [&](int cores, double busy) {
    Staged staged = row_evidence("independent", 4, parts);
    staged.row->load = MachineLoad{.seconds = 10, .cores = cores};
    staged.row->cores = busy;
    return findings_of(staged.evidence);
  };
  ASSERT_EQ(found(2, 1.9).size(), 1u);
  EXPECT_EQ(found(2, 1.9)[0].cause, "more threads than cores");
  EXPECT_NEAR(found(2, 1.9)[0].ms, 10, 1e-6) << "half of compute and optimizer";
  EXPECT_THAT(found(2, 1.9)[0].sentence,
              AllOf(HasSubstr("4 workers with 1 thread each share 2 cores"), HasSubstr("1.9")));
  EXPECT_THAT(found(2, 0.8), IsEmpty()) << "workers that rest leave the cores to others";
  EXPECT_THAT(found(4, 3.9), IsEmpty());
}

TEST(ExplainCauses, AServerIsBusyIfItMovesMoreThanWorkers) {
  const StepParts parts{
      .step = 30, .compute = 10, .communication = 20, .exposed = 20, .serving_optimizer = 2};
  const auto found = [&](double times) {
    Staged staged = row_evidence("ps", 2, parts);
    for (std::size_t r = 0; r < staged.row->ranks.size(); ++r)
      if (staged.row->plan.ranks[r].server >= 0)
        staged.row->ranks[r].bytes_sent_per_step = staged.row->ranks[r].bytes_received_per_step =
            times * 1e6;
    return findings_of(staged.evidence);
  };
  const std::vector<Finding> busy = found(2);
  ASSERT_FALSE(busy.empty());
  EXPECT_EQ(busy[0].cause, "a busy server");
  EXPECT_NEAR(busy[0].ms, 18, 1e-6) << "the optimizer is another cause";
  EXPECT_THAT(busy[0].sentence, HasSubstr("2.0 times what a worker moves"));
  for (const Finding& finding : found(1.2)) EXPECT_NE(finding.cause, "a busy server");
}

TEST(ExplainCauses, MoreBytesThanNeededBeyondWhatPaddingMakes) {
  const StepParts parts{.step = 30, .compute = 20, .communication = 10, .exposed = 10};
  const auto found = [&](double times) {
    Staged staged = row_evidence("ddp", 2, parts);
    staged.evidence.summary.bytes_sent_per_step = times * 1e6;
    return causes_found(staged.evidence);
  };
  EXPECT_THAT(found(1.5), ::testing::Contains("more bytes than needed"));
  EXPECT_THAT(found(1.2), Not(::testing::Contains("more bytes than needed")));
}

TEST(ExplainCauses, ADisturbedMachine) {
  Staged staged = row_evidence("independent", 2, {.step = 20, .compute = 18, .optimizer = 2});
  staged.row->load = MachineLoad{.seconds = 10, .cores = 2, .others_s = 8};
  EXPECT_THAT(causes_found(staged.evidence), ElementsAre("disturbed machine"));
  staged.row->load->others_s = 0.1;
  EXPECT_THAT(causes_found(staged.evidence), IsEmpty());
}

TEST(ExplainCauses, RecomputationAndTheWholeOptimizer) {
  Staged staged = row_evidence("ddp", 4, {.step = 20, .compute = 16, .optimizer = 4});
  EXPECT_THAT(causes_found(staged.evidence), ElementsAre("the whole optimizer on every rank"));
  staged.row->plan.train.recompute = Recompute::full;
  EXPECT_THAT(causes_found(staged.evidence),
              ElementsAre("recomputation", "the whole optimizer on every rank"));
}

// ---- bounds, and what is said

TEST(ExplainBounds, ComputingAloneIsSingleOverTheWorld) {
  const Staged single = row_evidence("single", 1, {.step = 30, .compute = 30});
  const Staged ddp = row_evidence("ddp", 2, {.step = 20, .compute = 14, .exposed = 6});
  const Bounds bounds = bounds_of(ddp.evidence, {single.evidence, ddp.evidence});
  EXPECT_NEAR(bounds.compute_ms, 15, 1e-6);
  const Staged independent = row_evidence("independent", 2, {.step = 16, .compute = 15});
  const Bounds closer =
      bounds_of(ddp.evidence, {single.evidence, independent.evidence, ddp.evidence});
  EXPECT_NEAR(closer.compute_ms, 16, 1e-6);
  EXPECT_THAT(closer.compute_of, HasSubstr("independent"));
  EXPECT_NEAR(bounds_of(ddp.evidence, {ddp.evidence}).compute_ms, 14, 1e-6);
}

TEST(ExplainCases, AreCalledAsInTheTable) {
  const Staged one = row_evidence("ddp", 2, {.step = 20, .compute = 20});
  const Staged two = row_evidence("ddp", 4, {.step = 20, .compute = 20});
  const std::vector<Evidence> all = {one.evidence, two.evidence};
  EXPECT_EQ(cases_called(all, "", 0).size(), 2u);
  EXPECT_EQ(cases_called(all, "ddp", 4).size(), 1u);
  const auto refusal = [&](const std::string& label, int world) -> std::string {
    try {
      cases_called(all, label, world);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_THAT(refusal("dpd", 0), AllOf(HasSubstr("no case 'dpd'"), HasSubstr("did you mean 'ddp'?"),
                                       HasSubstr("'ddp' at world 2, 'ddp' at world 4")));
  EXPECT_THAT(refusal("ddp", 3), HasSubstr("no case 'ddp' at world 3"));
}

}  // namespace
}  // namespace ringside
