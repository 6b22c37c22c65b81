// fsdp at every degree of sharding must train as `single` does, whatever the training is made of;
// the names of the ZeRO paper are schemes too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "peer/fsdp/fsdp.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/tiny_runs.h"

namespace ringside::runner {
namespace {

using peer::Shard;
using ::testing::IsEmpty;
using testing::reference_of;
using testing::run;
using testing::tiny;
using testing::violations;
using testing::wrong_losses;
using testing::wrong_parameters;

struct DegreeCase {
  Shard shard;
  int world;
  int shard_group = 0;
  bool in_place = true;  // shards of other ranks are read

  /// Groups add up within each group first, and then over groups.
  bool nested() const { return shard_group > 1 && shard_group < world; }
};

constexpr DegreeCase cases[] = {{Shard::no_shard, 3},
                                {Shard::shard_optimizer, 2},
                                {Shard::shard_optimizer, 3},
                                {Shard::shard_optimizer, 4},
                                {Shard::shard_grad_op, 2},
                                {Shard::shard_grad_op, 3},
                                {Shard::shard_grad_op, 4},
                                {Shard::on_demand, 2},
                                {Shard::on_demand, 3},
                                {Shard::on_demand, 4},
                                {Shard::hybrid_shard, 2, 1},
                                {Shard::hybrid_shard, 3, 4},
                                {Shard::hybrid_shard, 4, 2},
                                {Shard::full_shard, 2, 0, false},
                                {Shard::full_shard, 3, 0, false},
                                {Shard::full_shard, 4, 0, false},
                                {Shard::on_demand, 3, 0, false},
                                {Shard::hybrid_shard, 4, 2, false},
                                {Shard::hybrid_shard_zero2, 4, 2},
                                {Shard::hybrid_shard_zero1, 4, 2}};

class Degrees : public ::testing::TestWithParam<DegreeCase> {
 protected:
  static RunRecord row_of(ExperimentConfig config) {
    const auto& [shard, world, shard_group, in_place] = GetParam();
    config.scheme_options["fsdp"] =
        peer::FsdpOptions{.shard = shard, .shard_group = shard_group, .read_in_place = in_place};
    return run(plan_training(config, "fsdp", world));
  }

  /// `single` over the same micro-batches, added up in the same order: that of a rank's
  /// micro-batches is free for the ranks of a group if every rank has one micro-batch.
  static RunRecord definition_of(ExperimentConfig config) {
    const DegreeCase& c = GetParam();
    if (!c.nested()) return reference_of(config, c.world);
    EXPECT_EQ(config.train.accumulation, 1);
    config.train.accumulation = c.shard_group;
    return reference_of(config, c.world / c.shard_group);
  }

  static void expect_the_bits_of_single(const ExperimentConfig& config) {
    EXPECT_THAT(violations(row_of(config), definition_of(config)), IsEmpty());
  }
};

TEST_P(Degrees, EndWithTheBitsOfSingle) {
  auto config = testing::evaluating();
  config.model.tied = true;
  expect_the_bits_of_single(config);
}

TEST_P(Degrees, ClipAndMeasureNorms) {
  auto config = tiny("gpt");
  config.optimizer.kind = "lamb";
  config.optimizer.decay = Decay::matrices;
  config.optimizer.clip_norm = 0.5;
  expect_the_bits_of_single(config);
}

TEST_P(Degrees, TrainInSixteenBits) {
  auto config = tiny("mlp");
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    config.train.precision = precision;
    expect_the_bits_of_single(config);
  }
  // The weights become so large that gradients overflow in some steps. These steps are skipped, and
  // send no parameters.
  config.train.steps = 12;
  config.optimizer.kind = "sgd";
  config.optimizer.lr = 3;
  const RunRecord row = row_of(config), definition = definition_of(config);
  EXPECT_GT(row.ranks[0].skipped_steps, 0);
  EXPECT_THAT(wrong_parameters(row, definition), IsEmpty());
  EXPECT_THAT(wrong_losses(row, definition), IsEmpty());
}

TEST_P(Degrees, AccumulateMicroBatches) {
  auto config = testing::accumulating();
  config.train.reduce = Reduce::last;
  const RunRecord reference = reference_of(config, GetParam().world), last = row_of(config);
  if (GetParam().nested())
    EXPECT_THAT(wrong_losses(last, reference, 1e-5), IsEmpty());
  else
    EXPECT_THAT(violations(last, reference), IsEmpty());
  config.train.reduce = Reduce::every;
  const RunRecord every = row_of(config);
  if (GetParam().shard == Shard::on_demand) {
    EXPECT_THAT(violations(every, reference), IsEmpty()) << "owners add up rank by rank";
    return;
  }
  EXPECT_THAT(wrong_losses(every, reference, 1e-5), IsEmpty());
  EXPECT_NE(every.parameter_hashes, reference.parameter_hashes) << "other sums, other bits";
  if (GetParam().nested()) return;
  const RunRecord ddp = run(plan_training(config, "ddp", GetParam().world));
  EXPECT_EQ(every.parameter_hashes, ddp.parameter_hashes) << "one tree for all schemes";
}

TEST_P(Degrees, TrainBatchNorms) {
  auto config = testing::tiny_resnet();
  config.optimizer.kind = "sgd";
  config.train.evaluate_every = 2;
  config.train.evaluate_batches = 2;
  expect_the_bits_of_single(config);
  config.model.batch_norm_group = GetParam().world;
  config.train.evaluate_every = 0;
  config.optimizer.lr = 1e-3;
  const RunRecord whole = run(plan_training(config, "single", 1));
  EXPECT_THAT(wrong_losses(row_of(config), whole, 1e-5), IsEmpty());
}

TEST_P(Degrees, RecomputeActivationsAndForgetDropout) {
  auto config = tiny("gpt");
  config.model.dropout = 0.2;
  const RunRecord kept = row_of(config);
  EXPECT_THAT(violations(kept, definition_of(config)), IsEmpty());
  config.train.recompute = Recompute::full;
  EXPECT_THAT(violations(row_of(config), kept), IsEmpty());
}

std::string name_of_degrees(const ::testing::TestParamInfo<DegreeCase>& info) {
  const auto& [shard, world, shard_group, in_place] = info.param;
  return fmt::format("{}_world_{}_group_{}{}", name_of(shard), world, shard_group,
                     in_place ? "" : "_copied");
}

INSTANTIATE_TEST_SUITE_P(Fsdp, Degrees, ::testing::ValuesIn(cases), name_of_degrees);

TEST(NamesOfZero, AreFsdpWithOneDegree) {
  const std::pair<std::string, Shard> names[] = {{"zero1", Shard::shard_optimizer},
                                                 {"zero2", Shard::shard_grad_op},
                                                 {"zero3", Shard::full_shard}};
  for (const auto& [name, shard] : names) {
    auto config = tiny("mlp");
    config.scheme_options["fsdp"] = peer::FsdpOptions{.shard = shard};
    const RunPlan plan = plan_training(config, name, 2);
    EXPECT_EQ(plan.scheme, name);
    EXPECT_EQ(plan.train.reduce, name == "zero1" ? Reduce::last : Reduce::every);
    const RunRecord row = run(plan), same = run(plan_training(config, "fsdp", 2));
    EXPECT_THAT(violations(row, same), IsEmpty());
    for (std::size_t r = 0; r < row.ranks.size(); ++r) {
      EXPECT_EQ(row.ranks[r].at_peak, same.ranks[r].at_peak);
      EXPECT_EQ(row.ranks[r].bytes_sent_per_step, same.ranks[r].bytes_sent_per_step);
    }
  }
}

TEST(NamesOfZero, StandForThatDegreeAlone) {
  auto config = tiny("mlp");
  config.scheme_options["zero1"] = peer::FsdpOptions{.shard = Shard::full_shard};
  try {
    plan_training(config, "zero1", 2);
    FAIL() << "it is accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "scheme.zero1.shard = 'full_shard': zero1 stands for 'shard_optimizer'; leave it "
                 "out, or use scheme fsdp");
  }
}

}  // namespace
}  // namespace ringside::runner
