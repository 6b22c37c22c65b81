// The causes that `explain` names, on both sides of their thresholds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/experiments/explain_made_up.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> causes_found(const tools::explain::Evidence& evidence) {
  std::vector<std::string> names;
  for (const tools::explain::Finding& finding : tools::explain::findings_of(evidence))
    names.push_back(finding.cause);
  return names;
}

std::optional<tools::explain::Finding> named(const std::vector<tools::explain::Finding>& all,
                                             const std::string& cause) {
  for (const tools::explain::Finding& one : all)
    if (one.cause == cause) return one;
  return {};
}

TEST(ExplainCauses, ASlowRankIsATenthSlowerAndOthersWait) {
  const Staged slow = TwoRanks(2).staged();
  const std::vector<tools::explain::Finding> found = tools::explain::findings_of(slow.evidence);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].cause, "a slow rank");
  EXPECT_NEAR(found[0].ms, 8, 1e-6);
  EXPECT_THAT(found[0].sentence, AllOf(HasSubstr("Rank 1 is slow"), HasSubstr("20.0 ms"),
                                       HasSubstr("1.67 times"), HasSubstr("12.0 ms")));
  // 5% more compute is what two steps of equal ranks differ by.
  EXPECT_THAT(causes_found(TwoRanks(1.07).staged().evidence),
              Not(::testing::Contains("a slow rank")));
}

/// Which of the equal cores of a machine is slow is a matter of chance (docs/schemes.md).
TEST(ExplainCauses, SharesBySpeedAreForDevicesThatDiffer) {
  const auto remedy = [](const TwoRanks& two) {
    return tools::explain::findings_of(two.staged().evidence).front().remedies.at(0);
  };
  TwoRanks two(2);
  ASSERT_EQ(two.plan.device.kind, "cpu");
  EXPECT_THAT(remedy(two).settings, IsEmpty());
  EXPECT_THAT(remedy(two).words, HasSubstr("running it again"));
  const std::vector<Setting> by_speed = {{"train.shares", "speed"}};
  two.plan.device.slow = {1, 2};
  EXPECT_EQ(remedy(two).settings, by_speed);
  two = TwoRanks(2);
  two.plan.homes = {{.host = "a"}, {.host = "b"}};
  EXPECT_EQ(remedy(two).settings, by_speed);
}

TEST(ExplainCauses, SixteenBitsAreNotForBytesThatAreReadInOneMemory) {
  const Staged staged = row_evidence(
      "ddp", 2, {.step = 33, .compute = 12, .communication = 20, .exposed = 20, .optimizer = 1});
  const auto advised = [&] {
    const auto found =
        named(tools::explain::findings_of(staged.evidence), "communication longer than compute");
    if (!found) throw Error("the cause was not found");
    for (const tools::explain::Remedy& one : found->remedies)
      if (!one.settings.empty() && one.settings[0].key == "train.reduce_precision") return true;
    return false;
  };
  ASSERT_EQ(staged.row->plan.device.kind, "cpu");
  EXPECT_FALSE(advised());
  staged.row->plan.homes = {{.host = "a"}, {.host = "b"}};
  EXPECT_TRUE(advised());
  staged.row->plan.homes.clear();
  staged.row->plan.device.kind = "cuda";
  EXPECT_TRUE(advised());
}

TEST(ExplainCauses, ARankWithMoreSamplesIsNotSlow) {
  TwoRanks two(2);
  two.plan.train.global_batch = 30;
  two.plan.train.micro_batch = 19;
  two.plan.train.shares = Shares::given;
  two.plan.train.weights = {11, 19};
  const Staged staged = two.staged();
  EXPECT_EQ(causes_found(staged.evidence).front(), "uneven shares");
  EXPECT_THAT(tools::explain::findings_of(staged.evidence).front().sentence,
              AllOf(HasSubstr("Rank 1 has 19 samples"), HasSubstr("11 in the median")));
}

TEST(ExplainCauses, OneBucketForAllWithoutATrace) {
  // 4 MB of gradients; the bucket has 25.
  const Staged one = row_evidence(
      "ddp", 2, {.step = 20, .compute = 12, .communication = 7, .exposed = 7, .optimizer = 1});
  const std::vector<tools::explain::Finding> found = tools::explain::findings_of(one.evidence);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].cause, "one bucket for all");
  EXPECT_NEAR(found[0].ms, 7, 1e-6) << "backward, 8 ms, could hide all of it";
  EXPECT_THAT(found[0].sentence, HasSubstr("All gradients (4 MB) are one bucket"));

  const Staged long_one = row_evidence(
      "ddp", 2, {.step = 33, .compute = 12, .communication = 20, .exposed = 20, .optimizer = 1});
  for (const tools::explain::Finding& finding : tools::explain::findings_of(long_one.evidence)) {
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
  const tools::explain::Explanation explanation =
      tools::explain::explanation_of(sound.evidence, {}, {}, tools::explain::Detail::full);
  EXPECT_THAT(tools::explain::explanation_text(explanation, {}, tools::explain::Detail::full),
              AllOf(HasSubstr("Nothing stands out"), HasSubstr("5.2 ms are hidden"),
                    HasSubstr("the least that its scheme needs")));
}

/// As of local_sgd, whose workers exchange replicas in few steps.
TEST(ExplainCauses, AreSharesOfTheMeanStepWhereFewStepsAreLong) {
  const Staged uneven =
      row_evidence("local_sgd", 2, {.step = 10, .compute = 9, .communication = 24, .exposed = 23});
  const tools::explain::Explanation explanation =
      tools::explain::explanation_of(uneven.evidence, {}, {}, tools::explain::Detail::full);
  EXPECT_THAT(tools::explain::explanation_text(explanation, {}, tools::explain::Detail::full),
              AllOf(HasSubstr("A step takes 10.0 ms in the median and 32.0 ms in the mean"),
                    HasSubstr("exposed communication 23.0 ms (72%)"),
                    HasSubstr("up to 23.0 ms (72% of the step)")));
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

TEST(ExplainCauses, ComputeFarBelowThePeakDoesNotGrowWithABatch) {
  const auto found = [](double flop) {
    const Staged staged = row_evidence("single", 1, {.step = 10, .compute = 6, .optimizer = 4});
    staged.row->work = ModelWork{.linear = flop / 3, .executed = flop};  // of each of 4 samples
    staged.row->measured_peak = Peak{1e9, "fp32", "a test"};
    return tools::explain::findings_of(staged.evidence);
  };
  // At a quarter of the peak 4 samples take 1.6 ms, and 3.2 ms.
  ASSERT_EQ(found(0.1e6).size(), 1u);
  EXPECT_EQ(found(0.1e6)[0].cause, "a tiny batch");
  EXPECT_NEAR(found(0.1e6)[0].ms, 8.4, 1e-6);
  EXPECT_THAT(found(0.1e6)[0].sentence,
              AllOf(HasSubstr("6.0 ms of compute no more than 1.6 ms"), HasSubstr("1.16 times")));
  EXPECT_THAT(found(0.2e6), IsEmpty());
}

TEST(ExplainCauses, MoreThreadsThanCoresOnlyWhereTheCoresAreBusy) {
  const tools::explain::StepParts parts{.step = 20, .compute = 18, .optimizer = 2};
  const auto found = [&](int cores, double busy, double others = 0) {
    Staged staged = row_evidence("independent", 4, parts);
    staged.row->load = MachineLoad{.seconds = 10, .cores = cores, .others_s = 10 * others};
    staged.row->cores = busy;
    return tools::explain::findings_of(staged.evidence);
  };
  ASSERT_EQ(found(2, 1.9).size(), 1u);
  EXPECT_EQ(found(2, 1.9)[0].cause, "more threads than cores");
  EXPECT_NEAR(found(2, 1.9)[0].ms, 10, 1e-6) << "half of compute and optimizer";
  EXPECT_THAT(found(2, 1.9)[0].sentence,
              AllOf(HasSubstr("4 workers with 1 thread each share 2 cores"), HasSubstr("1.9")));
  EXPECT_THAT(found(2, 0.8), IsEmpty()) << "workers that rest leave the cores to others";
  EXPECT_THAT(found(4, 3.9), IsEmpty());
  const std::vector<tools::explain::Finding> beside = found(2, 1.1, 0.8);
  EXPECT_TRUE(std::any_of(beside.begin(), beside.end(), [](const tools::explain::Finding& one) {
    return one.cause == "more threads than cores";
  })) << "other processes keep cores busy too";
}

TEST(ExplainCauses, AServerIsBusyIfItMovesMoreThanWorkers) {
  const tools::explain::StepParts parts{
      .step = 30, .compute = 10, .communication = 20, .exposed = 20, .serving_optimizer = 2};
  const auto found = [&](double times) {
    Staged staged = row_evidence("ps", 2, parts);
    for (std::size_t r = 0; r < staged.row->ranks.size(); ++r)
      if (staged.row->plan.ranks[r].server >= 0)
        staged.row->ranks[r].bytes_sent_per_step = staged.row->ranks[r].bytes_received_per_step =
            times * 1e6;
    return tools::explain::findings_of(staged.evidence);
  };
  const std::vector<tools::explain::Finding> busy = found(2);
  ASSERT_FALSE(busy.empty());
  EXPECT_EQ(busy[0].cause, "a busy server");
  EXPECT_NEAR(busy[0].ms, 18, 1e-6) << "the optimizer is another cause";
  EXPECT_THAT(busy[0].sentence, HasSubstr("2.0 times what a worker moves"));
  for (const tools::explain::Finding& finding : found(1.2))
    EXPECT_NE(finding.cause, "a busy server");
}

TEST(ExplainCauses, MoreBytesThanNeededBeyondWhatPaddingMakes) {
  const tools::explain::StepParts parts{
      .step = 30, .compute = 20, .communication = 10, .exposed = 10};
  const auto found = [&](double times) {
    Staged staged = row_evidence("ddp", 2, parts);
    staged.evidence.summary.bytes.sent = times * 1e6;
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

TEST(ExplainCauses, ReadingSamplesCountsIfWorkersWaitForThem) {
  const auto found = [](double data) {
    return causes_found(
        row_evidence("single", 1, {.step = 10, .compute = 10 - data, .data = data}).evidence);
  };
  EXPECT_THAT(found(0.6), ElementsAre("reading samples"));
  EXPECT_THAT(found(0.4), IsEmpty());
}

RunPlan plan_with(const std::vector<std::string>& settings, const char* scheme) {
  return runner::plan_training(with(made_up_experiment(), settings), scheme, 2);
}

TEST(ExplainCauses, NoOverlapIfThereIsSomethingToHide) {
  const auto found = [](double reduced) {
    return tools::explain::findings_of(
        two_equal_ranks(plan_with({"scheme.ddp.overlap=false"}, "ddp"),
                        {{"compute", "forward a", 0, 6},
                         {"compute", "backward a", 6, 16},
                         {"communication", "all-reduce bucket 0", 16, reduced},
                         {"exposed", "wait all-reduce bucket 0", 16, reduced},
                         {"optimizer", "optimizer", reduced, reduced + 1}})
            .evidence);
  };
  ASSERT_EQ(found(20).size(), 1u) << "what switches overlap off explains why one bucket waits";
  EXPECT_EQ(found(20)[0].cause, "no overlap");
  EXPECT_NEAR(found(20)[0].ms, 4, 1e-6);
  ASSERT_EQ(found(20)[0].remedies.size(), 1u);
  EXPECT_EQ(found(20)[0].remedies[0].settings[0].key, "scheme.ddp.overlap");
  const auto longer = named(found(40), "no overlap");
  ASSERT_TRUE(longer);
  EXPECT_NEAR(longer->ms, 10, 1e-6) << "backward has no more";
  EXPECT_THAT(found(16.5), IsEmpty());
}

TEST(ExplainCauses, TheLastBucketIsNotHiddenByBackward) {
  // Bucket 0 is reduced beside the backward of `a`, bucket 1 from `begun` on.
  const auto found = [](double begun, double reduced) {
    return tools::explain::findings_of(
        two_equal_ranks(plan_with({}, "ddp"),
                        {{"compute", "forward a", 0, 6},
                         {"compute", "backward b", 6, 10},
                         {"communication", "all-reduce bucket 0", 10, 12},
                         {"compute", "backward a", 10, 16},
                         {"communication", "all-reduce bucket 1", begun, reduced},
                         {"exposed", "wait all-reduce bucket 1", 16, reduced},
                         {"optimizer", "optimizer", reduced, reduced + 1}})
            .evidence);
  };
  ASSERT_EQ(found(16, 18).size(), 1u);
  EXPECT_EQ(found(16, 18)[0].cause, "the last bucket");
  EXPECT_NEAR(found(16, 18)[0].ms, 2, 1e-6);
  EXPECT_THAT(found(16, 18)[0].sentence, HasSubstr("The last of 2 reductions"));
  EXPECT_THAT(found(16, 16.5), IsEmpty()) << "3% of the step";
  EXPECT_FALSE(named(found(13, 18), "the last bucket")) << "backward hides a part of it";
}

TEST(ExplainCauses, PrefetchIsTooLateIfComputeCouldHideTheGather) {
  // Unit b is gathered beside the forward of a, which is too short for it.
  const auto found = [](double gathered) {
    return tools::explain::findings_of(
        two_equal_ranks(plan_with({"scheme.fsdp.prefetch=1"}, "fsdp"),
                        {{"compute", "forward a", 0, 2},
                         {"communication", "all-gather b", 0, gathered},
                         {"exposed", "wait all-gather b", 2, gathered},
                         {"compute", "forward b", gathered, gathered + 2},
                         {"compute", "backward b", gathered + 2, gathered + 6},
                         {"compute", "backward a", gathered + 6, gathered + 10}})
            .evidence);
  };
  ASSERT_EQ(found(5).size(), 1u);
  EXPECT_EQ(found(5)[0].cause, "prefetch too late");
  EXPECT_NEAR(found(5)[0].ms, 3, 1e-6);
  EXPECT_THAT(found(5)[0].sentence,
              AllOf(HasSubstr("'all-gather b' takes 5.0 ms"), HasSubstr("only 2.0 ms before")));
  EXPECT_EQ(found(5)[0].remedies[0].settings[0].value, "2");
  EXPECT_THAT(found(2.5), IsEmpty()) << "4% of the step";
  ASSERT_EQ(found(13).size(), 1u) << "no prefetch hides what takes longer than all compute";
  EXPECT_EQ(found(13)[0].cause, "communication longer than compute");
}

TEST(ExplainCauses, ReducedTooOftenIfEveryMicroBatchIs) {
  const auto found = [](const std::string& reduce, double reduced = 20) {
    return tools::explain::findings_of(
        two_equal_ranks(plan_with({"train.global_batch=4", "train.reduce=" + reduce}, "ddp"),
                        {{"compute", "forward a", 0, 6},
                         {"compute", "backward a", 6, 16},
                         {"communication", "all-reduce bucket 0", 16, reduced},
                         {"exposed", "wait all-reduce bucket 0", 16, reduced},
                         {"optimizer", "optimizer", reduced, reduced + 1}})
            .evidence);
  };
  const auto every = named(found("every"), "reduced too often");
  ASSERT_TRUE(every);
  EXPECT_NEAR(every->ms, 2, 1e-6) << "half of 4 ms: there are two micro-batches";
  EXPECT_FALSE(named(found("last"), "reduced too often"));
  EXPECT_FALSE(named(found("every", 17.5), "reduced too often")) << "4% of the step";
}

TEST(ExplainCauses, OffloadIsNotHiddenIfWorkersWaitForTheHost) {
  const auto found = [](double copied, const char* offload) {
    return causes_found(two_equal_ranks(plan_with({std::string("train.offload=") + offload}, "ddp"),
                                        {{"compute", "forward a", 0, 6},
                                         {"compute", "backward a", 6, 16},
                                         {"exposed", "wait copy of bucket 0", 16, copied},
                                         {"optimizer", "optimizer", copied, copied + 1}})
                            .evidence);
  };
  EXPECT_THAT(found(18, "optimizer"), ElementsAre("offload not hidden"));
  EXPECT_THAT(found(16.5, "optimizer"), IsEmpty());
  EXPECT_THAT(found(18, "none"), Not(::testing::Contains("offload not hidden")));
}

// ---- bounds, and what is said

TEST(ExplainBounds, ComputingAloneIsSingleOverTheWorld) {
  const Staged single = row_evidence("single", 1, {.step = 30, .compute = 30});
  const Staged ddp = row_evidence("ddp", 2, {.step = 20, .compute = 14, .exposed = 6});
  const tools::explain::Bounds bounds = bounds_of(ddp.evidence, {single.evidence, ddp.evidence});
  EXPECT_NEAR(bounds.compute_ms, 15, 1e-6);
  const Staged independent = row_evidence("independent", 2, {.step = 16, .compute = 15});
  const tools::explain::Bounds closer =
      bounds_of(ddp.evidence, {single.evidence, independent.evidence, ddp.evidence});
  EXPECT_NEAR(closer.compute_ms, 16, 1e-6);
  EXPECT_THAT(closer.compute_of, HasSubstr("independent"));
  EXPECT_NEAR(bounds_of(ddp.evidence, {ddp.evidence}).compute_ms, 14, 1e-6);
}

TEST(ExplainCases, AreCalledAsInTheTable) {
  const Staged one = row_evidence("ddp", 2, {.step = 20, .compute = 20});
  const Staged two = row_evidence("ddp", 4, {.step = 20, .compute = 20});
  const std::vector<tools::explain::Evidence> all = {one.evidence, two.evidence};
  EXPECT_EQ(tools::explain::cases_called(all, "", 0).size(), 2u);
  EXPECT_EQ(tools::explain::cases_called(all, "ddp", 4).size(), 1u);
  const auto refusal = [&](const std::string& label, int world) -> std::string {
    try {
      tools::explain::cases_called(all, label, world);
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
