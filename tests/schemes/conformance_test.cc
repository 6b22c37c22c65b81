// Every scheme of the registry must train as its definition does: `single` for the schemes that
// promise the same run, a sequential program of its own for every other scheme.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/tools/check/scheme_checks.h"
#include "peer/schemes/ddp.h"
#include "ps/schemes/ps.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/tiny_runs.h"

namespace ringside::runner {
namespace {

using testing::definition_of;
using ::testing::IsEmpty;
using testing::largest_difference;
using ::testing::Not;
using testing::reference_of;
using testing::run;
using ::testing::SizeIs;
using testing::tiny;
using testing::violations;
using testing::wrong_losses;
using testing::wrong_parameters;

/// The checks that every scheme must pass.
using SchemeConformance = testing::SchemeAtWorld;
/// Further checks for schemes that promise the training run of `single`.
class ExactConformance : public testing::SchemeAtWorld {};
/// The checks for schemes whose runs are replayed.
class ReplayedConformance : public testing::SchemeAtWorld {};

void expect_all_checks_hold(const tools::check::CheckedScheme& one) {
  for (const tools::check::SchemeCheck& check : tools::check::scheme_checks()) {
    if (!concerns(check, one)) continue;
    if (check.simulates && !tools::check::can_simulate()) continue;
    EXPECT_THAT(check.run(one, testing::text_path()), IsEmpty()) << check.demand;
  }
}

TEST_P(SchemeConformance, Holds) { expect_all_checks_hold(checked()); }
TEST_P(ReplayedConformance, Holds) { expect_all_checks_hold(checked()); }

TEST_P(SchemeConformance, RecomputesActivationsWithTheSameBits) {
  auto config = tiny("gpt");
  config.model.layers = 6;
  config.train.global_batch = 48;
  const RunRecord kept = run(plan_of(config));
  // Of the last worker: what else the master of dp holds at its peak depends on who is ahead.
  const auto peak = [this](const RunRecord& row) {
    const RankRecord& rank = row.ranks[static_cast<std::size_t>(world() - 1)];
    return static_cast<double>(rank.at_peak[MemoryKind::activation]);
  };
  for (const auto& [recompute, share] :
       {std::pair(Recompute::attention, 0.8), {Recompute::full, 0.5}}) {
    config.train.recompute = recompute;
    const RunRecord again = run(plan_of(config));
    EXPECT_THAT(violations(again, kept), IsEmpty()) << name_of(recompute);
    EXPECT_LT(peak(again), share * peak(kept)) << name_of(recompute);
  }
}

TEST_P(ExactConformance, AgreesWithTheWholeBatchToRounding) {
  auto config = tiny("gpt");
  config.train.steps = 30;
  config.optimizer.lr = 1e-3;
  const RunRecord row = run(plan_of(config));
  const RunRecord whole = run(plan_training(config, "single", 1));
  EXPECT_THAT(wrong_losses(row, whole, 1e-5), IsEmpty());
  EXPECT_LT(row.loss.back(), 0.9 * row.loss.front()) << "it learns";
}

TEST_P(SchemeConformance, EvaluationCostsNoBytesOfAStep) {
  auto config = tiny("mlp");
  const RunRecord without = run(plan_of(config));
  config.train.evaluate_every = 1;
  const RunRecord with = run(plan_of(config));
  for (std::size_t r = 0; r < with.ranks.size(); ++r)
    EXPECT_NEAR(with.ranks[r].bytes_sent_per_step, without.ranks[r].bytes_sent_per_step,
                0.02 * without.ranks[r].bytes_sent_per_step + 256)
        << r;
}

INSTANTIATE_TEST_SUITE_P(Registry, SchemeConformance, testing::every_scheme_at({1, 2, 3, 4}),
                         testing::name_of_case);
INSTANTIATE_TEST_SUITE_P(Registry, ReplayedConformance,
                         testing::every_replayed_scheme_at({1, 2, 3, 4}), testing::name_of_case);
INSTANTIATE_TEST_SUITE_P(Registry, ExactConformance, testing::every_exact_scheme_at({1, 2, 3, 4}),
                         testing::name_of_case);

/// All mixes of colocated and dedicated servers, by world.
class MixedServers : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, MixedServers, ::testing::Values(1, 2, 3, 4));

TEST_P(MixedServers, EndWithTheBitsOfSingle) {
  const int world = GetParam();
  for (const char* model : {"gpt", "mlp"})
    for (int dedicated = 0; dedicated <= world; ++dedicated) {
      auto config = std::string(model) == "gpt" ? testing::accumulating() : tiny(model);
      config.optimizer.clip_norm = dedicated == 1 ? 0.5 : 0;
      config.scheme_options["ps"] = ps::PsOptions{
          .servers = dedicated, .placement = ps::Placement::mixed, .partition_mb = 0.01};
      const RunRecord row = run(plan_training(config, "ps", world));
      EXPECT_THAT(violations(row, definition_of(config, "ps", world)), IsEmpty())
          << model << " with " << dedicated << " dedicated servers";
    }
}

/// When workers of bsp read, and how tensors are spread over servers, does not change what a run
/// computes; with clipping, workers read only after sums anyway.
class ServersOfBsp : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, ServersOfBsp, ::testing::Values(1, 2, 3, 4));

TEST_P(ServersOfBsp, EndWithTheBitsOfSingleHoweverTheyAreReadAndWhateverTheyKeep) {
  const int world = GetParam();
  for (const ps::Pull pull : {ps::Pull::overlapped, ps::Pull::barrier})
    for (const ps::PartitionBy by :
         {ps::PartitionBy::parts, ps::PartitionBy::tensors, ps::PartitionBy::round_robin}) {
      auto config = testing::accumulating();
      config.optimizer.clip_norm = by == ps::PartitionBy::tensors ? 0.5 : 0;
      config.scheme_options["ps"] =
          ps::PsOptions{.servers = 3, .partition_mb = 0.01, .partition_by = by, .pull = pull};
      const RunRecord row = run(plan_training(config, "ps", world));
      EXPECT_THAT(violations(row, definition_of(config, "ps", world)), IsEmpty())
          << name_of(pull) << ", by " << name_of(by);
    }
}

TEST_P(ServersOfBsp, ReadAfterABarrierInGroupsToo) {
  const int world = GetParam();
  if (world % 2 != 0) GTEST_SKIP() << "groups of 2 do not divide world " << world;
  for (const double clip_norm : {0.0, 0.5}) {
    auto config = testing::accumulating();
    config.optimizer.clip_norm = clip_norm;
    config.scheme_options["ps"] = ps::PsOptions{
        .servers = 2, .sum_group = 2, .partition_mb = 0.01, .pull = ps::Pull::barrier};
    const RunRecord row = run(plan_training(config, "ps", world));
    EXPECT_THAT(violations(row, definition_of(config, "ps", world)), IsEmpty())
        << "clip_norm " << clip_norm;
  }
}

/// The unit that reads a lent table writes into the table's gradient before the lender does. A
/// worker that is ahead must not do so while a slow one still reads that of the micro-batch before.
TEST(LentTables, HaveTheRightGradientNextToASlowWorker) {
  auto config = tiny("gpt");
  config.model.tied = true;
  config.train.accumulation = 4;
  config.train.reduce = Reduce::every;
  config.device.slow = {1, 10};
  config.scheme_options["ddp"] = peer::DdpOptions{.bucket_mb = 1e-3};
  const RunRecord row = run(plan_training(config, "ddp", 2));
  EXPECT_THAT(violations(row, definition_of(config, "ddp", 2)), IsEmpty());
}

TEST(SingleTest, GroupsMicroBatchesAsReplicasWould) {
  auto config = tiny("mlp");
  config.train.accumulation = 2;
  const RunRecord grouped = reference_of(config, 3);
  config.train.accumulation = 6;
  const RunRecord sequence = run(plan_training(config, "single", 1));
  EXPECT_NE(grouped.parameter_hashes, sequence.parameter_hashes) << "other sums, other bits";
  EXPECT_LT(largest_difference(grouped.loss, sequence.loss), 1e-5);
}

TEST(SingleTest, TwoRunsAreTheSame) {
  const auto config = tiny("gpt");
  const RunRecord a = run(plan_training(config, "single", 1));
  const RunRecord b = run(plan_training(config, "single", 1));
  EXPECT_EQ(a.parameter_hashes, b.parameter_hashes);
  EXPECT_EQ(a.loss, b.loss);
}

TEST(SingleTest, ANonFiniteLossStopsTheRun) {
  auto config = tiny("gpt");
  config.optimizer.kind = "sgd";
  config.optimizer.lr = 1e30;
  try {
    run(plan_training(config, "single", 1));
    FAIL() << "the run went on";
  } catch (const std::exception& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("rank 0"), std::string::npos) << text;
    EXPECT_NE(text.find("at step"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace ringside::runner
