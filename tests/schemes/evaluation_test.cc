// Evaluations between the steps do not change the figures of the steps.
#include <gtest/gtest.h>

#include "experiments/runner/run/simulation.h"
#include "ps/schemes/ps.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/schemes/wrong_schemes.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

using testing::tiny;

/// Wide enough that parameters are most of what is sent.
ExperimentConfig wide(std::int64_t width, std::int64_t evaluate_every) {
  auto config = tiny("mlp");
  config.model.width = width;
  config.train.evaluate_every = evaluate_every;
  config.train.evaluate_batches = 1;
  return config;
}

void expect_the_same_bytes(const RunRecord& with, const RunRecord& without) {
  ASSERT_EQ(with.ranks.size(), without.ranks.size());
  for (std::size_t r = 0; r < with.ranks.size(); ++r) {
    EXPECT_EQ(with.ranks[r].bytes_sent_per_step, without.ranks[r].bytes_sent_per_step) << r;
    EXPECT_EQ(with.ranks[r].bytes_received_per_step, without.ranks[r].bytes_received_per_step) << r;
  }
}

class Evaluations : public testing::SchemeAtWorld {
 protected:
  RunRecord row_of(ExperimentConfig config) const {
    config.scheme_options["ps"] = ps::PsOptions{.servers = 2};
    return testing::run(plan_of(config));
  }
};

TEST_P(Evaluations, LeaveTheBytesOfAStepAsTheyAre) {
  const RunRecord without = row_of(wide(64, 0));
  for (const std::int64_t every : {1, 2}) {
    SCOPED_TRACE(every);
    expect_the_same_bytes(row_of(wide(64, every)), without);
  }
}

TEST_P(Evaluations, HaveTimeAndBytesOfTheirOwn) {
  const RunRecord row = row_of(wide(64, 2));
  EXPECT_EQ(row.evaluations.size(), 3u) << "after steps 2, 4 and 5";
  for (const RankRecord& rank : row.ranks) {
    if (rank.role == "server") continue;
    EXPECT_GT(rank.evaluation_s, 0) << rank.rank;
    // Evaluations of a model without running statistics need no other rank, except that fsdp
    // gathers the parameters, and clients of fedavg read those of the servers.
    const bool reads = (world() > 1 && scheme() == "fsdp") || scheme() == "fedavg";
    EXPECT_EQ(rank.evaluation_bytes.sent > 0, reads) << rank.rank;
  }
  const RunRecord without = row_of(wide(64, 0));
  EXPECT_EQ(without.ranks[0].evaluation_s, 0);
  EXPECT_EQ(without.ranks[0].evaluation_bytes.sent, 0);
}

INSTANTIATE_TEST_SUITE_P(Registry, Evaluations, testing::every_scheme_at({1, 2, 3}, 2),
                         testing::name_of_case);

/// Virtual time is exact.
class SimulatedEvaluations : public ::testing::TestWithParam<std::string> {
 protected:
  static RunRecord row_of(std::int64_t evaluate_every) {
    auto config = wide(1024, evaluate_every);
    config.device.kind = "sim";
    config.cluster = testing::small_cluster(2);
    return make_row(plan_training(config, GetParam(), 2),
                    simulate(plan_training(config, GetParam(), 2), [](const Progress&) {}));
  }
};

TEST_P(SimulatedEvaluations, LeaveTheWaitsOfAStepAsTheyAre) {
  const RunRecord with = row_of(1), without = row_of(0);
  expect_the_same_bytes(with, without);
  EXPECT_NEAR(with.time_ms.exposed, without.time_ms.exposed, 0.2 * without.time_ms.exposed);
  EXPECT_NEAR(with.samples_per_s, without.samples_per_s, 0.2 * without.samples_per_s);
  EXPECT_GT(with.ranks[0].evaluation_s, 0);
}

INSTANTIATE_TEST_SUITE_P(Registry, SimulatedEvaluations,
                         ::testing::ValuesIn(testing::scheme_names()),
                         [](const auto& info) { return testing::name_in_tests(info.param); });

/// Lets 10 ms pass on worker 1 in every pass of an evaluation.
class DawdlesInEvaluations : public testing::Wrapped {
 public:
  using Wrapped::Wrapped;
  void before_forward(std::size_t unit, const Pass& pass) override {
    if (!pass.training && unit == 0 && context().self().worker == 1)
      context().device.host_work({.bytes = 5e8}, [] {});  // at half of 100 GB/s
    Wrapped::before_forward(unit, pass);
  }
};

class EvaluationsBesideASlowWorker : public ::testing::TestWithParam<std::string> {
 protected:
  static RunPlan plan() {
    auto config = testing::tiny_resnet();
    config.train.accumulation = 2;  // statistics of two micro-batches, of which the mean is taken
    config.train.evaluate_every = 1;
    config.train.evaluate_batches = 1;
    config.device.kind = "sim";
    config.cluster = testing::small_cluster(2);
    return plan_training(config, GetParam(), 2);
  }
  static RunRecord row_of(const SchemeInfo* scheme) {
    return make_row(plan(), simulate(
                                plan(), [](const Progress&) {}, scheme));
  }
  const RunRecord even_ = row_of(nullptr);
  const SchemeInfo slow_scheme_ = testing::wrapping<DawdlesInEvaluations>(GetParam());
  const RunRecord slow_ = row_of(&slow_scheme_);
  /// Five evaluations with two micro-batches each.
  static constexpr double delay_s = 5 * 2 * 0.01;
};

using EvaluationsOfOwnReplicas = EvaluationsBesideASlowWorker;

TEST_P(EvaluationsOfOwnReplicas, WaitForNoOther) {
  const double alone_s = even_.ranks[0].evaluation_s;
  EXPECT_NEAR(slow_.ranks[0].evaluation_s, alone_s, 0.01 * alone_s);
  EXPECT_NEAR(slow_.ranks[1].evaluation_s, alone_s + delay_s, 0.01 * delay_s);
  for (const RankRecord& rank : slow_.ranks) {
    EXPECT_EQ(rank.evaluation_bytes.sent, 0) << rank.rank;
    EXPECT_EQ(rank.evaluation_bytes.received, 0) << rank.rank;
    if (GetParam() != "independent") continue;  // averagings wait, within steps
    for (const StepTime& step : rank.steps)
      EXPECT_EQ(step.by_activity[static_cast<std::size_t>(Activity::exposed)], 0) << rank.rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, EvaluationsOfOwnReplicas,
                         ::testing::Values("local_sgd", "independent"),
                         [](const auto& info) { return info.param; });

class EvaluationsOfShards : public EvaluationsBesideASlowWorker {};

TEST_P(EvaluationsOfShards, WaitForTheParametersOfAll) {
  EXPECT_GT(slow_.ranks[0].evaluation_s - even_.ranks[0].evaluation_s, 0.5 * delay_s);
}

INSTANTIATE_TEST_SUITE_P(Schemes, EvaluationsOfShards, ::testing::Values("fsdp"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace ringside::runner
