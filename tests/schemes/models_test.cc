// Models of all kinds under every scheme: batch norms, dropout and losses of several terms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/runner/report/verdict.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/tiny_models.h"

namespace ringside::runner {
namespace {

using testing::definition_of;
using testing::evaluated_resnet;
using testing::gpt_with_dropout;
using ::testing::IsEmpty;
using testing::largest_difference;
using testing::reference_of;
using testing::run;
using testing::tied_llama;
using testing::tiny;
using testing::tiny_bert;
using testing::tiny_idefics3;
using testing::tiny_t5;
using testing::violations;

class SchemeModels : public testing::SchemeAtWorld {
 protected:
  RunRecord row_of(const ExperimentConfig& config) const { return run(plan_of(config)); }
  void expect_the_bits_of_the_definition(const ExperimentConfig& config) const {
    const RunRecord row = row_of(config), reference = definition(config);
    EXPECT_EQ(row.parameter_hashes, reference.parameter_hashes);
    EXPECT_EQ(row.parameter_hashes.at(0).size(), 32u);
    EXPECT_EQ(row.loss, reference.loss);
    ASSERT_EQ(row.evaluations.size(), reference.evaluations.size());
    for (std::size_t i = 0; i < row.evaluations.size(); ++i) {
      EXPECT_EQ(row.evaluations[i].loss, reference.evaluations[i].loss) << i;
      EXPECT_EQ(row.evaluations[i].accuracy, reference.evaluations[i].accuracy) << i;
    }
  }
};

class ExactSchemeModels : public SchemeModels {};

TEST_P(ExactSchemeModels, ABatchNormOverAllRanksIsThatOfSingleOverTheirSamplesTogether) {
  auto config = evaluated_resnet();
  config.optimizer.lr = 1e-3;
  const RunRecord apart = row_of(config);
  const RunRecord whole = run(plan_training(config, "single", 1));
  ASSERT_EQ(whole.loss.size(), 5u);
  config.model.batch_norm_group = world();
  const RunRecord row = row_of(config);
  EXPECT_LT(largest_difference(row.loss, whole.loss), 1e-5);
  EXPECT_NEAR(row.evaluations.at(0).loss, whole.evaluations.at(0).loss, 1e-5);
  if (world() > 1) {
    EXPECT_GT(largest_difference(apart.loss, whole.loss), 1e-3) << "without a group it is not";
  }
}

/// The norms of single take the same samples together, whatever the learning rate makes of
/// rounding.
TEST_P(ExactSchemeModels, JoinedBatchNormsEndWithTheBitsOfSingleWithTheSameGroups) {
  auto config = evaluated_resnet();
  for (const int group : {2, 4})
    for (const double lr : {1e-3, 0.3}) {
      if (world() % group != 0) continue;
      config.model.batch_norm_group = group;
      config.optimizer.lr = lr;
      const RunRecord row = row_of(config), single = reference_of(config, world());
      EXPECT_EQ(single.plan.model.batch_norm_group, group);
      EXPECT_THAT(violations(row, single), IsEmpty()) << "groups of " << group << ", lr " << lr;
      EXPECT_EQ(verdict({&row}, {row, single}).proof, Proof::identical_to_single);
    }
}

TEST(JoinedBatchNorms, OfBranchesWithDropoutAndRecomputationEndWithTheBitsOfSingle) {
  auto config = evaluated_resnet();
  config.model.kind = "inception";
  config.model.layers = 24;
  config.model.filters = 1;
  config.model.image = 75;
  config.model.dropout = 0.2;
  config.model.batch_norm_group = 2;
  config.train.global_batch = 8;
  config.train.steps = 2;
  config.train.evaluate_every = 2;
  config.train.evaluate_batches = 1;
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    config.train.recompute = recompute;
    EXPECT_THAT(violations(run(plan_training(config, "ddp", 4)), reference_of(config, 4)),
                IsEmpty());
  }
}

TEST_P(SchemeModels, ABertWithDropoutEndsWithTheBitsOfTheDefinition) {
  expect_the_bits_of_the_definition(tiny_bert());
}

TEST_P(SchemeModels, ABertIsJudgedByItsHiddenTokensAlone) {
  auto config = tiny_bert();
  config.train.evaluate_every = 5;
  const RunRecord row = row_of(config), reference = definition(config);
  ASSERT_EQ(row.evaluations.size(), 1u);
  const auto& found = row.evaluations[0];
  const auto& expected = reference.evaluations.at(0);
  EXPECT_NEAR(found.loss, expected.loss, 1e-6);
  EXPECT_NEAR(found.first_term, expected.first_term, 1e-6);
  EXPECT_NEAR(found.accuracy, expected.accuracy, 1e-9);
  EXPECT_GT(found.loss, found.first_term + 0.1)
      << "the other term says which pairs belong together";
  EXPECT_DOUBLE_EQ(*perplexity(row, found), std::exp(found.first_term));
}

TEST_P(SchemeModels, ATiedIdefics3EndsWithTheBitsOfTheDefinition) {
  auto config = tiny_idefics3();
  config.train.evaluate_every = 5;
  expect_the_bits_of_the_definition(config);
}

/// Units hand the encoder's output and the biases of attention to others, beside the stream.
TEST_P(SchemeModels, AT5WithDropoutEndsWithTheBitsOfTheDefinition) {
  auto config = tiny_t5();
  config.train.evaluate_every = 3;
  expect_the_bits_of_the_definition(config);
}

TEST_P(SchemeModels, AGptWithDropoutEndsWithTheBitsOfTheDefinition) {
  const auto config = gpt_with_dropout();
  expect_the_bits_of_the_definition(config);
  if (exact()) {
    EXPECT_LT(largest_difference(row_of(config).loss, run(plan_training(config, "single", 1)).loss),
              1e-5)
        << "what is dropped depends on the place in the global batch alone";
  }
  auto without = config;
  without.model.dropout = 0;
  EXPECT_GT(
      largest_difference(reference_of(config, world()).loss, reference_of(without, world()).loss),
      1e-3)
      << "it drops";
}

INSTANTIATE_TEST_SUITE_P(Registry, SchemeModels, testing::every_scheme_at({1, 2, 4}, 2),
                         testing::name_of_case);
INSTANTIATE_TEST_SUITE_P(Registry, ExactSchemeModels, testing::every_exact_scheme_at({1, 2, 4}),
                         testing::name_of_case);

TEST(DataParallel, HandsOutImagesThatAreLargerThanAChunkOfTheModel) {
  auto config = evaluated_resnet();
  config.model.stem = StemShape::imagenet;
  config.model.image = 160;  // 4 images of 300 KiB
  config.model.filters = 1;
  config.model.vocabulary = 16;
  config.train.global_batch = 8;
  config.train.steps = 2;
  config.train.evaluate_every = 0;
  config.train.timeout_s = 10;
  const RunRecord row = run(plan_training(config, "dp", 2));
  EXPECT_EQ(row.parameter_hashes, reference_of(config, 2).parameter_hashes);
}

class RecomputedActivations : public ::testing::Test {
 protected:
  static std::int64_t peak(const RunRecord& row) {
    return row.ranks[0].at_peak[MemoryKind::activation];
  }

  /// The activation peak of a run that recomputes, divided by the peak of a run that keeps
  /// everything.
  static double share_of_peak(ExperimentConfig config, const std::string& scheme, int world,
                              Recompute recompute = Recompute::full) {
    const RunRecord kept = run(plan_training(config, scheme, world));
    config.train.recompute = recompute;
    const RunRecord again = run(plan_training(config, scheme, world));
    EXPECT_EQ(again.loss, kept.loss);
    EXPECT_EQ(again.parameter_hashes, kept.parameter_hashes);
    EXPECT_EQ(again.evaluations.size(), kept.evaluations.size());
    for (std::size_t i = 0; i < kept.evaluations.size(); ++i)
      EXPECT_EQ(again.evaluations[i].loss, kept.evaluations[i].loss) << "running statistics";
    return static_cast<double>(peak(again)) / static_cast<double>(peak(kept));
  }
};

TEST_F(RecomputedActivations, DropTheSameValues) {
  auto gpt = gpt_with_dropout();
  gpt.model.layers = 6;
  EXPECT_LT(share_of_peak(gpt, "ddp", 2), 0.6);
  auto bert = tiny_bert();
  bert.model.layers = 6;
  EXPECT_LT(share_of_peak(bert, "fsdp", 2), 0.6);
  auto t5 = tiny_t5();
  t5.model.layers = 6;
  EXPECT_LT(share_of_peak(t5, "fsdp", 2), 0.6);
}

/// The text that the first unit hands to the connector is there again when that is recomputed, for
/// each of several micro-batches.
TEST_F(RecomputedActivations, KeepTheTextOfAnImage) {
  auto config = tiny_idefics3();
  config.model.layers = 6;
  config.train.accumulation = 2;
  config.train.evaluate_every = 2;
  EXPECT_LT(share_of_peak(config, "ddp", 2), 0.6);
  EXPECT_LT(share_of_peak(config, "fsdp", 2), 0.6);
}

/// Every model that has attention, in several micro-batches; in bf16 too, where sums are rounded
/// after a norm has read them.
TEST_F(RecomputedActivations, OfAttentionEndWithTheSameBitsInLessMemory) {
  const std::pair<ExperimentConfig, double> models[] = {{gpt_with_dropout(), 0.8},
                                                        {tiny_bert(), 0.85},
                                                        {tied_llama(), 0.91},
                                                        {tiny_idefics3(), 0.88},
                                                        {tiny_t5(), 0.85}};
  for (const auto& [model, share] : models)
    for (const auto& [scheme, world] : {std::pair("single", 1), {"ddp", 2}, {"fsdp", 2}})
      for (const Precision precision : {Precision::fp32, Precision::bf16}) {
        ExperimentConfig config = model;
        config.model.layers = 6;
        config.train.steps = 3;
        config.train.evaluate_every = 3;
        config.train.accumulation = 2;
        config.train.precision = precision;
        EXPECT_LT(share_of_peak(config, scheme, world, Recompute::attention), share)
            << config.model.kind << " under " << scheme << " in " << name_of(precision);
      }
}

TEST_F(RecomputedActivations, CountStatisticsOfBatchNormsOnce) {
  auto config = evaluated_resnet();
  config.train.accumulation = 2;
  EXPECT_LT(share_of_peak(config, "single", 1), 0.9);
  config.train.accumulation = 1;
  config.model.batch_norm_group = 2;
  EXPECT_LT(share_of_peak(config, "ddp", 2), 0.9);
}

TEST_F(RecomputedActivations, OfBranchesThatAreJoinedEndWithTheBitsOfSingle) {
  auto config = evaluated_resnet();
  config.model.kind = "inception";
  config.model.layers = 24;
  config.model.filters = 1;
  config.model.image = 75;
  config.model.dropout = 0.2;
  config.train.global_batch = 8;
  config.train.steps = 2;
  config.train.evaluate_every = 2;
  config.train.evaluate_batches = 1;
  EXPECT_LT(share_of_peak(config, "fsdp", 2), 0.9);
  EXPECT_EQ(run(plan_training(config, "fsdp", 2)).parameter_hashes,
            reference_of(config, 2).parameter_hashes);
}

TEST_F(RecomputedActivations, OfAnAlexNetEndWithTheBitsOfSingle) {
  auto config = evaluated_resnet();
  config.model.kind = "alexnet";
  config.model.filters = 1;
  config.model.image = 63;
  config.model.dropout = 0.5;
  config.train.global_batch = 8;
  config.train.steps = 2;
  config.train.evaluate_every = 2;
  config.train.evaluate_batches = 1;
  // So small a model has its peak where scratch memory of convolutions is largest, which depends on
  // the processor's vectors.
  EXPECT_LE(share_of_peak(config, "ddp", 2), 1);
  EXPECT_EQ(run(plan_training(config, "ddp", 2)).parameter_hashes,
            reference_of(config, 2).parameter_hashes);
}

/// Activation checkpointing lowers the activation peak of a GPT with 12 blocks by at least half and
/// leaves the losses bit-identical.
TEST_F(RecomputedActivations, OfTwelveBlocksOfAGptHalveThePeakAndLeaveTheLossesBitIdentical) {
  auto config = tiny("gpt");
  config.model.layers = 12;
  config.model.context = 16;
  EXPECT_LE(share_of_peak(config, "single", 1), 0.5);
}

}  // namespace
}  // namespace ringside::runner
