// Wrong schemes must fail what every scheme must pass, by the name of what is wrong, and a report
// must call them different.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/runner/report/verdict.h"
#include "peer/fsdp/fsdp.h"
#include "peer/schemes/ddp.h"
#include "peer/schemes/dpsgd.h"
#include "peer/schemes/local_sgd.h"
#include "peer/schemes/onebit_adam.h"
#include "peer/schemes/sgp.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/schemes/wrong_rules.h"
#include "tests/schemes/wrong_schemes.h"

namespace ringside::runner {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::forgetting_last_worker;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Matcher;
using ::testing::StartsWith;
using testing::tiny;
using testing::Violations;
using testing::violations;
using testing::wrapping;

using Text = Matcher<const std::string&>;

Text parameters_of(int replica) {
  return fmt::format("the parameters of replica {} differ from the definition's", replica);
}
Text loss_of(int step) {
  return AllOf(StartsWith(fmt::format("the loss of step {} is ", step)),
               HasSubstr(", but the definition's is "));
}
Text evaluation_after(int step) {
  return StartsWith(fmt::format("the evaluation after step {} differs: its loss is ", step));
}

/// The findings about a run.
struct Findings {
  Violations violations;
  Proof proof;
  std::string cause;
};

/// Runs `scheme` as the plan of its name with these workers, and holds it against the definition.
Findings find_at(int world, const ExperimentConfig& config, const SchemeInfo& scheme) {
  const std::string name(scheme.name);
  const RunRecord row = testing::run(plan_training(config, name, world), &scheme);
  const RunRecord definition = testing::definition_of(config, name, world);
  const Verdict found = verdict({&row}, {row, definition});
  return {violations(row, definition), found.proof, found.cause};
}
Findings find(ExperimentConfig config, const SchemeInfo& scheme, std::int64_t sync_every = 1) {
  config.scheme_options["local_sgd"] = peer::LocalSgdOptions{.sync_every = sync_every};
  return find_at(2, config, scheme);
}

/// Faults in a scheme that promises the run of `single`, and in one that has its own definition.
class WrongSchemes : public ::testing::TestWithParam<std::string> {
 protected:
  bool exact() const { return default_promise(find_scheme(GetParam())) == Promise::same_run; }
  /// The parameters of all replicas, and the losses from a step to the fifth, which is the last.
  std::vector<Text> everything_from(int step) const {
    std::vector<Text> out = {parameters_of(0)};
    if (!exact()) out.push_back(parameters_of(1));
    for (; step <= 5; ++step) out.push_back(loss_of(step));
    return out;
  }
};

TEST_P(WrongSchemes, ButRightOnesPass) {
  for (const auto& config : {testing::accumulating(), testing::evaluating()}) {
    const Findings found = find(config, wrapping<testing::Wrapped>(GetParam()));
    EXPECT_THAT(found.violations, IsEmpty());
    EXPECT_EQ(found.proof, exact() ? Proof::identical_to_single : Proof::identical_to_definition);
  }
}

TEST_P(WrongSchemes, StepBeforeTheLastMicroBatch) {
  const SchemeInfo scheme = wrapping<testing::StepsEarly>(GetParam());
  const Findings found = find(testing::accumulating(), scheme);
  EXPECT_THAT(found.violations, ElementsAreArray(everything_from(1)))
      << "the last micro-batch already meets the new parameters";
  EXPECT_EQ(found.proof, Proof::different);
  EXPECT_THAT(find(tiny("mlp"), scheme).violations, IsEmpty()) << "one micro-batch";
}

TEST_P(WrongSchemes, ForgetAWorker) {
  const Findings found = find(tiny("mlp"), forgetting_last_worker(GetParam()));
  EXPECT_THAT(found.violations, ElementsAreArray(everything_from(2)));
  EXPECT_EQ(found.proof, Proof::different);
}

TEST_P(WrongSchemes, ReportALossThatTheyDidNotHave) {
  const Findings found = find(tiny("gpt"), wrapping<testing::MisreportsLoss<true>>(GetParam()));
  EXPECT_THAT(found.violations, ElementsAre(loss_of(3))) << "the parameters are right";
  EXPECT_EQ(found.proof, Proof::different);
}

TEST_P(WrongSchemes, ReportAnEvaluationThatTheyDidNotHave) {
  const Findings found =
      find(testing::evaluating(), wrapping<testing::MisreportsLoss<false>>(GetParam()));
  EXPECT_THAT(found.violations, ElementsAre(evaluation_after(2)));
  EXPECT_EQ(found.proof, Proof::different);
}

TEST_P(WrongSchemes, NeverExchangeAnything) {
  const Findings found = find(tiny("mlp"), testing::never_exchanging(GetParam()));
  EXPECT_THAT(found.violations,
              Contains(StartsWith("the busiest rank sends 0 bytes in a step, which is below the "
                                  "least possible ")));
  EXPECT_THAT(found.violations,
              Contains(exact() ? Text("the run reports 2 replicas, but the definition has 1")
                               : parameters_of(1)));
  EXPECT_EQ(found.proof, Proof::different);
}

INSTANTIATE_TEST_SUITE_P(Kinds, WrongSchemes, ::testing::Values("ddp", "local_sgd"),
                         [](const auto& info) { return info.param; });

TEST(WrongReplicas, MustAllBeShown) {
  const Findings found = find(tiny("mlp"), wrapping<testing::HidesReplicas>("local_sgd"));
  EXPECT_THAT(found.violations, ElementsAre("the run reports 1 replica, but the definition has 2"));
  EXPECT_EQ(found.proof, Proof::different);
}

/// No loss comes after the last update, and worker 0 has done it.
TEST(WrongWorkers, ThatLeaveOutTheLastUpdateAreNamed) {
  for (const std::int64_t steps : {5, 1}) {
    auto config = tiny("mlp");
    config.train.steps = steps;
    config.train.warmup = 0;
    const Findings found = find_at(3, config, wrapping<testing::SkipsLastUpdate>("ddp"));
    EXPECT_THAT(found.violations, ElementsAre("rank 1 ends with other parameters than rank 0",
                                              "rank 2 ends with other parameters than rank 0"));
    EXPECT_EQ(found.proof, Proof::different);
    EXPECT_EQ(found.cause,
              "the parameters of ranks 1 and 2 at the end differ from those of rank 0");
  }
}

/// All ranks gather the same wrong shard, so the ranks agree.
TEST(WrongWorkers, ThatLeaveOutTheUpdateOfTheirShardAreNamed) {
  auto config = tiny("gpt");
  config.scheme_options["fsdp"] = peer::FsdpOptions{.read_in_place = false};
  const Findings found = find_at(2, config, wrapping<testing::SkipsLastUpdate>("fsdp"));
  EXPECT_THAT(found.violations, ElementsAre(parameters_of(0)));
  EXPECT_EQ(found.proof, Proof::different);
  EXPECT_EQ(found.cause, "the parameters of rank 1 at the end differ");
}

TEST(WrongWorkers, MustAllShowTheirParameters) {
  const Findings found = find_at(3, tiny("mlp"), wrapping<testing::HidesWorkers>("ddp"));
  EXPECT_THAT(found.violations, ElementsAre("1 of 3 workers show their parameters"));
  EXPECT_EQ(found.proof, Proof::not_shown);
  EXPECT_EQ(found.cause, "of 3 workers only 1 showed the parameters at the end");
}

/// The only loss is that of the initial values, and a low learning rate moves no loss by more than
/// rounding does.
TEST(WrongWorkers, WhoseGradientsAreLostShowWhateverTheStepsAndTheLearningRate) {
  auto config = tiny("mlp");
  config.train.warmup = 0;
  config.optimizer.lr = 1e-9;
  for (const std::int64_t steps : {5, 1}) {
    config.train.steps = steps;
    const Findings found = find_at(3, config, forgetting_last_worker("ddp"));
    EXPECT_EQ(found.proof, Proof::different) << steps;
    EXPECT_EQ(found.cause, "the parameters at the end differ") << steps;
  }
}

TEST(Proofs, OverNothingAreNone) {
  const SchemeInfo ddp = find_scheme("ddp");
  auto config = tiny("mlp");
  config.optimizer.lr = 0;
  Findings found = find_at(2, config, ddp);
  EXPECT_THAT(found.violations, IsEmpty());
  EXPECT_EQ(found.proof, Proof::not_shown);
  EXPECT_EQ(found.cause, "optimizer.lr = 0, so no step changed a parameter");

  RunRecord row = testing::run(plan_training(tiny("mlp"), "ddp", 2), &ddp);
  const RunRecord definition = testing::definition_of(tiny("mlp"), "ddp", 2);
  EXPECT_EQ(verdict({&row}, {row, definition}).proof, Proof::identical_to_single);
  for (RankRecord& rank : row.ranks) rank.bytes_sent_per_step = 0;
  EXPECT_EQ(verdict({&row}, {row, definition}).proof, Proof::not_shown);
  EXPECT_THAT(verdict({&row}, {row, definition}).cause,
              StartsWith("no rank sent a byte in the measured steps, though the busiest has to "
                         "send 0.0"));
}

/// The parameters after the last step have no loss unless they are evaluated.
TEST(WrongReplicas, OfTheLastStepShowInItsEvaluation) {
  const SchemeInfo scheme = forgetting_last_worker("local_sgd");
  Findings found = find(tiny("gpt"), scheme, 5);
  EXPECT_THAT(found.violations, ElementsAre(parameters_of(0), parameters_of(1)));
  EXPECT_EQ(found.proof, Proof::different);
  found = find(testing::evaluating(), scheme, 5);
  EXPECT_THAT(found.violations,
              ElementsAre(parameters_of(0), parameters_of(1), evaluation_after(5)));
  EXPECT_EQ(found.proof, Proof::different);
}

/// A gradient of top-k's that differs from the definition's in one worker's memory or message.
class WrongCompression : public ::testing::Test {
 protected:
  static Findings find_compressed(const SchemeInfo& scheme, int world = 3) {
    auto config = tiny("mlp");
    config.scheme_options["ddp"] =
        peer::DdpOptions{.bucket_mb = 1e-3, .compression = {.compressor = "topk", .ratio = 0.25}};
    return find_at(world, config, scheme);
  }
};

TEST_F(WrongCompression, ForgetsItsErrors) {
  const Findings found = find_compressed(testing::misled<peer::DdpOptions>(
      "ddp", [](peer::DdpOptions& own) { own.compression.memory = ErrorMemory::none; }));
  EXPECT_THAT(found.violations, Contains(parameters_of(0)));
  EXPECT_EQ(found.proof, Proof::different);
}

/// The sum of two messages is the same in any order: there only the memory shows the mistake.
TEST_F(WrongCompression, TakesTheMessageOfTheWrongWorkerForItsOwn) {
  for (const int world : {2, 3}) {
    const Findings found =
        find_compressed(testing::communicating_by<testing::MistakesSenders>("ddp"), world);
    EXPECT_THAT(found.violations, Contains(parameters_of(0))) << world;
    EXPECT_EQ(found.proof, Proof::different);
  }
}

TEST_F(WrongCompression, TakesTheIndicesOfTheWrongWorker) {
  const Findings found =
      find_compressed(testing::communicating_by<testing::MistakesIndices>("ddp"), 2);
  EXPECT_THAT(found.violations, Contains(parameters_of(0)));
  EXPECT_THAT(found.violations, Contains(loss_of(2)));
  EXPECT_EQ(found.proof, Proof::different);
}

/// Sharded gradients, and parameters, that differ from the definition's in a code.
class WrongCodes : public ::testing::Test {
 protected:
  static void expect_noticed(const peer::FsdpOptions& options, const SchemeInfo& scheme) {
    auto config = tiny("mlp");
    config.scheme_options["fsdp"] = options;
    const Findings found = find_at(4, config, scheme);
    EXPECT_THAT(found.violations, Contains(parameters_of(0)));
    EXPECT_EQ(found.proof, Proof::different);
  }
  template <class Change>
  static SchemeInfo misled(const Change& change) {
    return testing::misled<peer::FsdpOptions>("fsdp", change);
  }
  const peer::FsdpOptions topk_{.compression = {.compressor = "topk", .ratio = 0.25}};
};

TEST_F(WrongCodes, ThatForgetTheirErrors) {
  expect_noticed(
      topk_, misled([](peer::FsdpOptions& own) { own.compression.memory = ErrorMemory::none; }));
}

/// The sum is that of `single`, and not what the codes say.
TEST_F(WrongCodes, ThatAreNotMade) {
  expect_noticed(
      topk_, misled([](peer::FsdpOptions& own) { own.compression.compressor = no_compressor; }));
}

/// A sum of the same codes in another order has other bits.
TEST_F(WrongCodes, OfTheWrongWorkers) {
  const SchemeInfo scheme = testing::communicating_by<testing::MistakesSenders>("fsdp");
  expect_noticed({.compression = {.compressor = "int8"}}, scheme);
  expect_noticed({.zero_quantized_weights = true}, scheme);
}

/// Sums of two rounds: each has its own mistakes.
TEST_F(WrongCodes, OfMatrices) {
  const peer::FsdpOptions powersgd{
      .bucket_mb = 0.01, .compression = {.compressor = "powersgd", .matrix_approximation_rank = 2}};
  expect_noticed(powersgd, testing::forgetting_last_worker("fsdp"));
  expect_noticed(powersgd, testing::communicating_by<testing::SumsEverySecondArray>("fsdp"));
  expect_noticed(
      powersgd, misled([](peer::FsdpOptions& own) { own.compression.memory = ErrorMemory::none; }));
  expect_noticed(powersgd,
                 misled([](peer::FsdpOptions& own) { own.compression.warm_start = false; }));
}

TEST_F(WrongCodes, OfWeightsInOtherBlocks) {
  expect_noticed({.zero_quantized_weights = true},
                 misled([](peer::FsdpOptions& own) { own.compression.block = 255; }));
}

TEST_F(WrongCodes, OfGradientsThatSkipAHost) {
  expect_noticed({.zero_hpz_partition_size = 2, .zero_quantized_gradients = true},
                 misled([](peer::FsdpOptions& own) { own.zero_hpz_partition_size = 1; }));
}

TEST_F(WrongCodes, OfAHostsCopiesThatAreStale) {
  expect_noticed({.zero_hpz_partition_size = 2},
                 testing::communicating_by<testing::GathersOldValues>("fsdp"));
}

/// Momenta of 1-bit Adam that differ from the definition's.
class WrongMomenta : public ::testing::Test {
 protected:
  static void expect_noticed(const SchemeInfo& scheme) {
    auto config = tiny("mlp");
    config.scheme_options["onebit_adam"] = peer::OnebitAdamOptions{.freeze_step = 2};
    const Findings found = find_at(3, config, scheme);
    EXPECT_THAT(found.violations, Contains(parameters_of(0)));
    EXPECT_EQ(found.proof, Proof::different);
  }
};

TEST_F(WrongMomenta, WithoutTheLastWorker) {
  expect_noticed(testing::communicating_by<testing::HearsNothingOfLastRank>("onebit_adam"));
}

TEST_F(WrongMomenta, AfterAnotherWarmUp) {
  expect_noticed(testing::misled<peer::OnebitAdamOptions>(
      "onebit_adam", [](peer::OnebitAdamOptions& own) { ++own.freeze_step; }));
}

TEST(WrongMixing, OfAnotherGraph) {
  const SchemeInfo scheme = testing::misled<peer::DpsgdOptions>(
      "dpsgd", [](peer::DpsgdOptions& own) { own.graph = peer::Graph::complete; });
  const Findings found = find_at(4, tiny("mlp"), scheme);
  EXPECT_THAT(found.violations, Contains(parameters_of(0)));
  EXPECT_EQ(found.proof, Proof::different);
}

/// The graph of one_peer is another one in every step.
TEST(WrongMixing, ByTheGraphOfTheStepBefore) {
  auto config = tiny("mlp");
  for (const bool overlap : {false, true}) {
    config.scheme_options["dpsgd"] =
        peer::DpsgdOptions{.graph = peer::Graph::one_peer, .overlap = overlap};
    const Findings found = find_at(
        4, config,
        testing::ruled_by<testing::MixesByTheGraphOfTheStepBefore>("dpsgd", peer::make_dpsgd_rule));
    EXPECT_THAT(found.violations, Contains(parameters_of(0))) << overlap;
    EXPECT_EQ(found.proof, Proof::different);
    const Findings right =
        find_at(4, config, testing::ruled_by<testing::WrappedRule>("dpsgd", peer::make_dpsgd_rule));
    EXPECT_THAT(right.violations, IsEmpty());
  }
}

TEST(WrongMixing, WithAForgottenWeight) {
  auto config = tiny("mlp");
  for (const auto& own : {peer::SgpOptions{}, peer::SgpOptions{.graph = peer::Graph::star},
                          peer::SgpOptions{.overlap = 1}}) {
    config.scheme_options["sgp"] = own;
    const Findings found = find_at(
        3, config, testing::ruled_by<testing::ForgetsTheWeight>("sgp", peer::make_sgp_rule));
    EXPECT_THAT(found.violations, Contains(parameters_of(0)));
    EXPECT_EQ(found.proof, Proof::different);
  }
}

TEST(WrongReplicas, ThatKeepTheirMomentsAreNamed) {
  auto config = tiny("mlp");
  config.scheme_options["local_sgd"] =
      peer::LocalSgdOptions{.sync_every = 2, .average_moments = true};
  const Findings found =
      find_at(2, config,
              testing::ruled_by<testing::KeepsItsMoments>("local_sgd", peer::make_local_sgd_rule));
  EXPECT_THAT(found.violations, Contains(parameters_of(0)));
  EXPECT_EQ(found.proof, Proof::different);
}

TEST(WrongReplicas, ThatAverageInTheWrongGroupAreNamed) {
  auto config = tiny("mlp");
  config.scheme_options["local_sgd"] = peer::LocalSgdOptions{.group = 2};
  const Findings found =
      find_at(4, config, testing::communicating_by<testing::SplitsByTurns>("local_sgd"));
  EXPECT_THAT(found.violations, Contains(parameters_of(0)));
  EXPECT_EQ(found.proof, Proof::different);
}

}  // namespace
}  // namespace ringside::runner
