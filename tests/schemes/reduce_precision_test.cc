// train.reduce_precision: gradients are summed over ranks in another dtype than backward writes.
// ddp, and fsdp at every degree, must end with the bits of their definition.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "peer/fsdp/fsdp.h"
#include "peer/schemes/ddp.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using peer::Shard;
using testing::complaint;
using testing::definition_of;
using ::testing::IsEmpty;
using testing::reference_of;
using testing::run;
using testing::tiny;
using testing::violations;
using testing::wrong_losses;
using testing::wrong_parameters;

struct Dtypes {
  Precision precision;
  ReducePrecision reduce;
};
constexpr Dtypes mixed_dtypes[] = {{Precision::bf16, ReducePrecision::fp32},
                                   {Precision::fp16, ReducePrecision::fp32},
                                   {Precision::fp32, ReducePrecision::bf16},
                                   {Precision::fp32, ReducePrecision::fp16}};

ExperimentConfig with(ExperimentConfig config, const Dtypes& dtypes) {
  config.train.precision = dtypes.precision;
  config.train.reduce_precision = dtypes.reduce;
  return config;
}

/// A scheme at one world, with buckets of several sizes.
struct ReduceCase {
  const char* scheme;
  int world;
  Shard shard = Shard::no_shard;
  int group = 0;
  double bucket_mb = 0;
};

constexpr ReduceCase reduce_cases[] = {{"ddp", 1},
                                       {"ddp", 2},
                                       {"ddp", 4},
                                       {"fsdp", 1, Shard::full_shard},
                                       {"fsdp", 3, Shard::no_shard, 0, 0.005},
                                       {"fsdp", 2, Shard::shard_optimizer},
                                       {"fsdp", 4, Shard::shard_optimizer, 0, 0.005},
                                       {"fsdp", 3, Shard::shard_grad_op},
                                       {"fsdp", 3, Shard::full_shard},
                                       {"fsdp", 4, Shard::full_shard, 0, 0.005},
                                       {"fsdp", 4, Shard::hybrid_shard, 2, 0.005},
                                       {"fsdp", 4, Shard::hybrid_shard_zero1, 2}};

class ReducePrecisions : public ::testing::TestWithParam<ReduceCase> {
 protected:
  static RunPlan plan(const ExperimentConfig& config) {
    return plan_training(configured(config), GetParam().scheme, GetParam().world);
  }
  static RunRecord definition(const ExperimentConfig& config) {
    return definition_of(configured(config), GetParam().scheme, GetParam().world);
  }
  static void expect_the_bits_of_the_definition(const ExperimentConfig& config) {
    EXPECT_THAT(violations(run(plan(config)), definition(config)), IsEmpty());
  }

 private:
  static ExperimentConfig configured(ExperimentConfig config) {
    const ReduceCase& c = GetParam();
    config.scheme_options["ddp"] = peer::DdpOptions{.bucket_mb = 0.005};
    config.scheme_options["fsdp"] =
        peer::FsdpOptions{.shard = c.shard, .shard_group = c.group, .bucket_mb = c.bucket_mb};
    return config;
  }
};

TEST_P(ReducePrecisions, EndWithTheBitsOfTheDefinition) {
  for (const Dtypes& dtypes : mixed_dtypes)
    expect_the_bits_of_the_definition(with(tiny("mlp"), dtypes));
}

TEST_P(ReducePrecisions, ClipAndMeasureNormsOfWhatWasSummed) {
  auto config = with(tiny("gpt"), mixed_dtypes[0]);
  config.model.tied = true;
  config.optimizer.kind = "lamb";
  config.optimizer.clip_norm = 0.5;
  expect_the_bits_of_the_definition(config);
}

TEST_P(ReducePrecisions, AccumulateMicroBatches) {
  for (const Dtypes& dtypes : {mixed_dtypes[0], mixed_dtypes[2]})
    for (const Reduce reduce : {Reduce::last, Reduce::every}) {
      auto config = with(testing::accumulating(), dtypes);
      config.train.reduce = reduce;
      expect_the_bits_of_the_definition(config);
    }
}

/// Weights so large that gradients overflow fp16 in some steps.
TEST_P(ReducePrecisions, SkipStepsThatOverflowFp16OnTheWay) {
  for (const Dtypes& dtypes : {mixed_dtypes[1], mixed_dtypes[3]}) {
    auto config = with(tiny("mlp"), dtypes);
    config.train.steps = 12;
    config.optimizer.kind = "sgd";
    config.optimizer.lr = 3;
    const RunRecord row = run(plan(config)), defined = definition(config);
    EXPECT_GT(row.ranks[0].skipped_steps, 0);
    EXPECT_THAT(wrong_parameters(row, defined), IsEmpty());
    EXPECT_THAT(wrong_losses(row, defined), IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(Peers, ReducePrecisions, ::testing::ValuesIn(reduce_cases),
                         [](const auto& info) {
                           const ReduceCase& c = info.param;
                           return fmt::format("{}_{}_world_{}{}", c.scheme, name_of(c.shard),
                                              c.world, c.bucket_mb > 0 ? "_in_buckets" : "");
                         });

TEST(ReducePrecision, FollowsTheOrderOfAnAlgorithm) {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::recursive_doubling})
    for (const Dtypes& dtypes : {mixed_dtypes[0], mixed_dtypes[2]}) {
      auto config = with(tiny("mlp"), dtypes);
      config.scheme_options["ddp"] = peer::DdpOptions{.bucket_mb = 0.005, .algorithm = algorithm};
      config.scheme_options["fsdp"] = peer::FsdpOptions{.bucket_mb = 0.005, .algorithm = algorithm};
      for (const char* scheme : {"ddp", "fsdp"}) {
        const RunPlan plan = plan_training(config, scheme, 3);
        EXPECT_TRUE(plan.sums.own_order);
        EXPECT_THAT(violations(run(plan), definition_of(config, scheme, 3)), IsEmpty());
      }
    }
}

TEST(ReducePrecision, RoundsTheSumsOfASingleRank) {
  const auto plain = tiny("mlp"), rounded = with(plain, mixed_dtypes[2]);
  EXPECT_NE(reference_of(plain, 1).parameter_hashes, reference_of(rounded, 1).parameter_hashes);
}

TEST(ReducePrecision, KeepsTheSumsOfBf16GradientsFiner) {
  // Four ranks, two micro-batches each: fp32 sums of the same gradients have other bits.
  auto config = with(tiny("mlp"), mixed_dtypes[0]);
  const RunRecord fine = run(plan_training(config, "ddp", 4));
  config.train.reduce_precision = ReducePrecision::same;
  const RunRecord coarse = run(plan_training(config, "ddp", 4));
  EXPECT_NE(fine.parameter_hashes, coarse.parameter_hashes);
  EXPECT_THAT(wrong_losses(fine, coarse, 1e-2), IsEmpty());
}

TEST(ReducePrecision, HasOneTreeOfSumsForEachNumberOfRanks) {
  auto config = with(tiny("mlp"), mixed_dtypes[2]);
  // Without conversion, two ranks with a micro-batch each add up as one rank with two.
  EXPECT_EQ(plan_training(config, "ddp", 2).sums.groups, 2);
  config.train.reduce_precision = ReducePrecision::same;
  EXPECT_EQ(plan_training(config, "ddp", 2).sums.groups, 1);
}

TEST(ReducePrecision, ThatConvertsNothingIsTheSame) {
  auto config = tiny("mlp");
  config.train.reduce_precision = ReducePrecision::fp32;
  EXPECT_EQ(plan_training(config, "ps", 2).train.reduce_precision, ReducePrecision::same);
}

TEST(ReducePrecision, StandsInTheRow) {
  const RunRecord row = run(plan_training(with(tiny("mlp"), mixed_dtypes[0]), "fsdp", 2));
  const auto json = to_json(row);
  EXPECT_EQ(json["dtypes"]["gradient"], "bf16");
  EXPECT_EQ(json["dtypes"]["reduction"], "fp32");
  EXPECT_EQ(json["dtypes"]["gradient_sum"], "fp32");
  EXPECT_EQ(row_from_json(nlohmann::json::parse(json.dump()), default_options).plan, row.plan);
}

TEST(ReducePrecision, IsRefusedWhereNoSchemeConverts) {
  EXPECT_EQ(complaint([] { plan_training(with(tiny("mlp"), mixed_dtypes[2]), "ps", 2); }),
            "train.reduce_precision = 'bf16': scheme ps moves gradients in the precision of the "
            "parameters; leave it out, or compare without this scheme");
  const Dtypes both{Precision::bf16, ReducePrecision::fp16};
  EXPECT_EQ(complaint([&] { plan_training(with(tiny("mlp"), both), "ddp", 2); }),
            "train.reduce_precision = 'fp16' does not go with train.precision = 'bf16': they hold "
            "other numbers in as many bits; choose 'same' or 'fp32'");
}

}  // namespace
}  // namespace ringside::runner
