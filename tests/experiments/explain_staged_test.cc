// `explain` names what is wrong in six staged cases, and not in the same case without the fault.
// All of them are simulated, so that they are the same on every machine; tests/long stages those
// that two cores can run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/runner/config/cluster_file.h"
#include "tests/experiments/explain_stages.h"

namespace ringside::runner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Stage {
  std::string cause{};
  std::string scheme{};
  int world = 1;
  ExperimentConfig faulty{}, sound{};
  double least_gain = 1.01;  // of the best remedy: the speed with it, over that without
  std::string says{};        // a part of the sentence that names the fault
};

Stage slow_rank_stage() {
  Stage out{.cause = "a slow rank", .scheme = "ddp", .world = 4};
  out.sound = with(staged_experiment(4, 32), {"scheme.ddp.bucket_mb=0.5"});
  out.faulty = out.sound;
  out.faulty.cluster->slow = {{0, 3, 2.0}};
  out.says = "Rank 3 is slow: its compute takes";
  return out;
}

Stage one_bucket_stage() {
  Stage out{.cause = "one bucket for all", .scheme = "ddp", .world = 4};
  out.sound = with(staged_experiment(4, 32), {"scheme.ddp.bucket_mb=0.5"});
  out.faulty = with(out.sound, {"scheme.ddp.bucket_mb=100"});
  out.says = "are one bucket, so nothing is reduced before backward ends";
  return out;
}

/// Four machines of one GPU, whose network cards are slow.
Stage master_stage() {
  Stage out{.cause = "a busy server", .scheme = "dp", .world = 4};
  out.sound = staged_experiment(1, 32);
  out.sound.cluster->machines = 4;
  out.sound.cluster->nic.gbs = 1000;
  out.faulty = out.sound;
  out.faulty.cluster->nic.gbs = 0.5;
  out.says = "Its link of 0.5 GB/s is the bottleneck";
  return out;
}

Stage prefetch_stage() {
  Stage out{.cause = "prefetch off", .scheme = "fsdp", .world = 4};
  out.sound = with(staged_experiment(4, 32), {"scheme.fsdp.prefetch=2"});
  out.faulty = with(out.sound, {"scheme.fsdp.prefetch=0"});
  out.says = "prefetch = 0: a unit is gathered when it is needed and not before";
  return out;
}

Stage tiny_batch_stage() {
  Stage out{.cause = "a tiny batch", .scheme = "ddp", .world = 4};
  out.sound = with(staged_experiment(1, 256), {"scheme.ddp.bucket_mb=0.5"});
  out.sound.cluster->machines = 4;
  out.sound.cluster->nic = {.gbs = 10, .latency_us = 20, .step_us = 50};
  out.faulty = with(out.sound, {"train.global_batch=4", "model.context=8"});
  out.says = "The batch is tiny: a worker has 1 sample of a step";
  return out;
}

Stage cores_stage() {
  Stage out{.cause = "more threads than cores", .scheme = "ddp", .world = 4};
  out.faulty = staged_experiment(1, 32);
  out.faulty.cluster = read_cluster(RINGSIDE_CLUSTERS "/epyc-2-cores.toml");
  out.sound = out.faulty;
  out.sound.cluster->device.cores = 4;
  out.least_gain = 0.99;  // two workers do as much as four
  out.says = "4 workers with 1 thread each share 2 cores";
  return out;
}

class StagedCases : public ::testing::TestWithParam<Stage (*)()> {};

TEST_P(StagedCases, TheFaultIsNamedFirstAndOnlyWhereItIs) {
  const Stage one = GetParam()();
  const Staged faulty = stage(one.faulty, one.scheme, one.world);
  const tools::explain::WhatIfSetup ground = simulated_ground();
  const tools::explain::Explanation explanation = tools::explain::explanation_of(
      faulty.evidence, {faulty.evidence}, ground, tools::explain::Detail::full);
  const std::string text =
      tools::explain::explanation_text(explanation, ground, tools::explain::Detail::full);
  ASSERT_FALSE(explanation.causes.empty()) << text;
  const tools::explain::Explained& first = explanation.causes.front();
  EXPECT_EQ(first.finding.cause, one.cause) << text;
  EXPECT_THAT(first.finding.sentence, HasSubstr(one.says)) << text;
  EXPECT_THAT(text, HasSubstr(one.says));

  // What is to be tried was simulated, and the best of it is expected to be faster.
  ASSERT_FALSE(first.trials.empty()) << text;
  EXPECT_GT(first.trials.front().gain(), one.least_gain) << text;
  EXPECT_THAT(text, HasSubstr("the simulator expects"));

  const Staged sound = stage(one.sound, one.scheme, one.world);
  for (const tools::explain::Finding& finding : tools::explain::findings_of(sound.evidence))
    EXPECT_THAT(finding.sentence, Not(HasSubstr(one.says)));
}

INSTANTIATE_TEST_SUITE_P(Of, StagedCases,
                         ::testing::Values(slow_rank_stage, one_bucket_stage, master_stage,
                                           prefetch_stage, tiny_batch_stage, cores_stage));

TEST(ExplainTrials, ExpectWhatTheCaseWithTheRemedyTakes) {
  const Stage one = one_bucket_stage();
  const Staged faulty = stage(one.faulty, one.scheme, one.world);
  const Staged sound = stage(one.sound, one.scheme, one.world);
  const std::vector<tools::explain::WhatIf> trials = tools::explain::what_ifs_of(
      faulty.evidence.plan(),
      {{.words = "smaller buckets", .settings = {{"scheme.ddp.bucket_mb", "0.5"}}}},
      simulated_ground());
  ASSERT_EQ(trials.size(), 1u);
  EXPECT_NEAR(trials[0].before_ms, faulty.evidence.ms.step, 1e-6);
  EXPECT_NEAR(trials[0].after_ms, sound.evidence.ms.step, 1e-6);
}

TEST(ExplainTrials, SayWhatCannotBeSimulated) {
  const Staged faulty = stage(staged_experiment(4, 32), "ddp", 4);
  const auto why = [&](tools::explain::Remedy remedy, const tools::explain::WhatIfSetup& ground) {
    return tools::explain::what_ifs_of(faulty.evidence.plan(), {std::move(remedy)}, ground)
        .front()
        .why_not;
  };
  EXPECT_THAT(why({.words = "x", .world = 8}, simulated_ground()), HasSubstr("4"));
  EXPECT_THAT(why({.words = "x", .settings = {{"scheme.ddp.buckets", "1"}}}, simulated_ground()),
              HasSubstr("scheme.ddp.buckets"));
  EXPECT_EQ(why({.words = "x", .not_simulated = "for a reason"}, simulated_ground()),
            "for a reason");

  RunPlan real = faulty.evidence.plan();
  real.cluster.reset();
  real.device.kind = "cpu";
  tools::explain::WhatIfSetup ground = simulated_ground();
  ground.no_machine = "nothing is calibrated";
  const tools::explain::Remedy buckets{.words = "x", .settings = {{"scheme.ddp.bucket_mb", "1"}}};
  EXPECT_EQ(tools::explain::what_ifs_of(real, {buckets}, ground).front().why_not,
            "nothing is calibrated");
  real.device.slow = {1, 2};
  EXPECT_THAT(tools::explain::what_ifs_of(real, {buckets}, ground).front().why_not,
              HasSubstr("device.slow"));
}

}  // namespace
}  // namespace ringside::runner
