// Runs that add gradients up in an order of their own: by an algorithm of collectives, or over
// ranks after every micro-batch. They end with the bits of a definition that has the same order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "peer/fsdp/fsdp.h"
#include "peer/schemes/ddp.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

using testing::definition_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::reference_of;
using testing::run;
using testing::tiny;
using testing::violations;
using testing::wrong_losses;
using testing::wrong_parameters;

class OrderOfSums : public ::testing::TestWithParam<std::tuple<Algorithm, int>> {
 protected:
  static Algorithm algorithm() { return std::get<0>(GetParam()); }
  static int world() { return std::get<1>(GetParam()); }
  static ExperimentConfig config(const std::string& model) {
    ExperimentConfig out = tiny(model);
    out.scheme_options["ddp"] = peer::DdpOptions{.bucket_mb = 0.01, .algorithm = algorithm()};
    out.scheme_options["fsdp"] = peer::FsdpOptions{.algorithm = algorithm()};
    return out;
  }
  /// Runs ddp and fsdp and their definitions, and compares them; the definitions agree with
  /// `single` to rounding. (Bytes are not compared: a step whose fp16 gradients are not finite may
  /// send less.)
  static void expect_the_bits_of_the_definition(const ExperimentConfig& config,
                                                double rounding = 1e-5) {
    for (const std::string scheme : {"ddp", "fsdp"}) {
      SCOPED_TRACE(scheme);
      const RunPlan plan = plan_training(config, scheme, world());
      ASSERT_TRUE(plan.sums.own_order);
      const RunRecord row = run(plan), definition = definition_of(config, scheme, world());
      EXPECT_THAT(wrong_parameters(row, definition), IsEmpty());
      EXPECT_THAT(wrong_losses(row, definition), IsEmpty());
      EXPECT_THAT(wrong_losses(definition, reference_of(config, world()), rounding), IsEmpty());
    }
  }
};
INSTANTIATE_TEST_SUITE_P(
    Peers, OrderOfSums,
    ::testing::Combine(::testing::Values(Algorithm::ring, Algorithm::tree,
                                         Algorithm::recursive_doubling, Algorithm::halving_doubling,
                                         Algorithm::hierarchical, Algorithm::naive),
                       // Two terms have the same sum in any order.
                       ::testing::Values(3, 4)),
    [](const auto& info) {
      std::string name(name_of(std::get<0>(info.param)));
      std::replace(name.begin(), name.end(), '-', '_');
      return name + "_world_" + std::to_string(std::get<1>(info.param));
    });

TEST_P(OrderOfSums, IsThatOfTheDefinitionInClippedStepsOfSeveralMicroBatches) {
  for (const Reduce reduce : {Reduce::last, Reduce::every}) {
    auto config = this->config("gpt");
    config.train.accumulation = 2;
    config.train.reduce = reduce;
    config.train.recompute = Recompute::full;
    config.optimizer.clip_norm = 0.5;
    expect_the_bits_of_the_definition(config);
  }
}

TEST_P(OrderOfSums, IsThatOfTheDefinitionWithLambAndTiedTables) {
  auto config = this->config("bert");
  config.data.kind = "synthetic-masked";
  config.model.masked = 2;
  config.data.path.clear();
  config.optimizer.kind = "lamb";
  expect_the_bits_of_the_definition(config);
}

TEST_P(OrderOfSums, IsThatOfTheDefinitionIn16Bits) {
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    auto config = this->config("mlp");
    config.train.precision = precision;
    expect_the_bits_of_the_definition(config, 1e-2);
  }
}

TEST_P(OrderOfSums, IsThatOfTheDefinitionInTwoLevels) {
  if (world() != 4) return;  // two groups of two ranks
  for (const peer::Shard shard : {peer::Shard::hybrid_shard, peer::Shard::hybrid_shard_zero1}) {
    auto config = this->config("gpt");
    config.scheme_options["fsdp"] =
        peer::FsdpOptions{.shard = shard, .shard_group = 2, .algorithm = algorithm()};
    config.train.accumulation = 2;
    expect_the_bits_of_the_definition(config);
  }
}

TEST(OrdersOfSums, InTwoLevelsOfRankOrderAreThatOfTheDefinition) {
  for (const Reduce reduce : {Reduce::last, Reduce::every}) {
    auto config = tiny("gpt");
    config.scheme_options["fsdp"] =
        peer::FsdpOptions{.shard = peer::Shard::hybrid_shard, .shard_group = 2};
    config.train.accumulation = 2;
    config.train.reduce = reduce;
    const RunRecord row = run(plan_training(config, "fsdp", 4));
    EXPECT_THAT(violations(row, definition_of(config, "fsdp", 4)), IsEmpty());
  }
}

TEST(OrdersOfSums, DifferFromThatOfSingleWhereTheOrderDoes) {
  auto config = tiny("gpt");
  config.scheme_options["ddp"] = peer::DdpOptions{.algorithm = Algorithm::ring};
  const RunRecord ring = run(plan_training(config, "ddp", 4));
  EXPECT_NE(ring.parameter_hashes, reference_of(config, 4).parameter_hashes);
}

TEST(OrdersOfSums, OfJoinedBatchNormsAreThoseOfTheAlgorithm) {
  auto config = testing::tiny_resnet();
  config.optimizer.kind = "sgd";
  config.model.batch_norm_group = 2;
  config.scheme_options["ddp"] = peer::DdpOptions{.algorithm = Algorithm::ring};
  const RunRecord row = run(plan_training(config, "ddp", 4));
  EXPECT_TRUE(row.plan.sums.own_order);
  EXPECT_THAT(violations(row, definition_of(config, "ddp", 4)), IsEmpty());
}

TEST(OrdersOfSums, NeedAnAlgorithmThatTheRanksCanUse) {
  auto config = tiny("gpt");
  config.device.kind = "sim";
  config.sim.numerics = true;
  config.cluster = testing::small_cluster(2);
  config.cluster->machines = 2;
  config.scheme_options["ddp"] = peer::DdpOptions{.algorithm = Algorithm::hierarchical};
  EXPECT_NO_THROW(plan_training(config, "ddp", 4));
  try {
    plan_training(config, "ddp", 3);
    FAIL() << "planned";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("scheme.ddp.algorithm: algorithm hierarchical needs "
                                        "equally many ranks on every host"));
  }
}

}  // namespace
}  // namespace ringside::runner
