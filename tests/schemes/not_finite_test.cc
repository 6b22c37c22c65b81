// train.skip_not_finite: a step whose loss is not finite on one worker is skipped by all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/schemes/conformance.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using testing::complaint;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::run;
using testing::tiny;
using testing::wrong_evaluations;
using testing::wrong_losses;
using testing::wrong_parameters;

ExperimentConfig poisoned(std::int64_t allowed, std::vector<std::string> faults) {
  auto config = tiny("gpt");
  config.train.evaluate_every = 5;
  config.train.evaluate_batches = 2;
  config.train.skip_not_finite = allowed;
  config.faults.plan = std::move(faults);
  return config;
}

class NotFinite : public testing::SchemeAtWorld {
 protected:
  /// Whether the scheme refuses to skip steps; the refusal names the option and what to do.
  bool refuses(const ExperimentConfig& config) const {
    const std::string why = complaint([&] { plan_of(config); });
    if (why == "nothing") return false;
    EXPECT_THAT(why, HasSubstr("train.skip_not_finite"));
    EXPECT_THAT(why, HasSubstr("leave it out"));
    return true;
  }
};

/// The definition has the same poison, on one rank: both end with the same bits, which are not
/// those of the run in which the step counts.
TEST_P(NotFinite, OnOneWorkerIsAStepThatNobodyMakes) {
  for (const Precision precision : {Precision::fp32, Precision::bf16})
    for (const char* optimizer : {"adamw", "lamb"}) {
      auto config = poisoned(1, {fmt::format("poison worker {} at step 2", world() - 1)});
      config.train.precision = precision;
      config.optimizer.kind = optimizer;
      if (!tried().info->optimizer.empty()) config.optimizer.kind = tried().info->optimizer;
      if (refuses(config)) {
        EXPECT_TRUE(tried().tried || tried().promise() != Promise::same_run) << "it has to skip";
        return;
      }
      const RunRecord row = run(plan_of(config)), defined = definition(config);
      for (int w = 0; w < world(); ++w)
        EXPECT_EQ(row.ranks[static_cast<std::size_t>(w)].skipped_steps, 1) << w;
      EXPECT_THAT(wrong_parameters(row, defined), IsEmpty());
      EXPECT_THAT(wrong_losses(row, defined), IsEmpty());
      EXPECT_THAT(wrong_evaluations(row, defined), IsEmpty());
      config.faults = {};
      const RunRecord all = run(plan_of(config));
      EXPECT_EQ(all.skipped_steps, 0);
      EXPECT_NE(all.ranks[0].parameter_hashes, row.ranks[0].parameter_hashes);
    }
}

INSTANTIATE_TEST_SUITE_P(Registry, NotFinite, testing::every_scheme_at({3}), testing::name_of_case);

/// Without a step that is not finite the option changes no bit.
TEST(NotFiniteSteps, ChangeNothingWhereThereAreNone) {
  for (const char* scheme : {"ddp", "fsdp", "ps"}) {
    const RunRecord with = run(plan_training(poisoned(3, {}), scheme, 2));
    EXPECT_THAT(wrong_parameters(with, run(plan_training(poisoned(0, {}), scheme, 2))), IsEmpty());
  }
}

TEST(NotFiniteSteps, EndTheRunIfTooManyComeInARow) {
  for (const char* scheme : {"ddp", "fsdp", "ps", "dp"}) {
    const auto fails = [&](std::int64_t allowed, std::vector<std::string> faults) {
      return complaint(
          [&] { run(plan_training(poisoned(allowed, std::move(faults)), scheme, 3)); });
    };
    const std::vector<std::string> three = {
        "poison worker 1 at step 1", "poison worker 2 at step 2", "poison worker 1 at step 3"};
    EXPECT_EQ(fails(3, three), "nothing");
    EXPECT_EQ(fails(2, {three[0], three[2], "poison worker 0 at step 4"}), "nothing");
    if (scheme == std::string("fsdp") || scheme == std::string("dp")) continue;  // as the others
    EXPECT_NE(fails(2, three), "nothing");
    EXPECT_NE(fails(0, {three[0]}), "nothing") << "as without the option";
  }
  const std::string one_rank = complaint([] {
    run(plan_training(poisoned(1, {"poison worker 0 at step 1", "poison worker 0 at step 2"}),
                      "ddp", 1));
  });
  EXPECT_THAT(one_rank, HasSubstr("rank 0: the loss is nan at step 3: the output of unit head is "
                                  "the first that is not finite, and the 1 step before it was "
                                  "skipped"));
}

/// The last of three steps is skipped: what two steps leave is what is evaluated, running
/// statistics included.
TEST(NotFiniteSteps, LeaveRunningStatisticsAsTheyWere) {
  auto config = testing::tiny_resnet();
  config.train.steps = 3;
  config.train.accumulation = 2;
  config.train.skip_not_finite = 1;
  config.train.evaluate_every = 1;
  config.train.evaluate_batches = 2;
  config.optimizer.schedule = Schedule::constant;
  config.faults.plan = {"poison worker 1 at step 2"};
  for (const char* scheme : {"ddp", "fsdp"}) {
    const RunRecord row = run(plan_training(config, scheme, 2));
    ASSERT_EQ(row.evaluations.size(), 3u);
    EXPECT_EQ(row.evaluations[2].loss, row.evaluations[1].loss) << scheme;
    EXPECT_NE(row.evaluations[1].loss, row.evaluations[0].loss);
  }
  config.faults.plan = {"poison worker 1 at step 0"};
  const RunRecord first = run(plan_training(config, "ddp", 2));
  EXPECT_TRUE(std::isfinite(first.evaluations[2].loss));
}

}  // namespace
}  // namespace ringside::runner
