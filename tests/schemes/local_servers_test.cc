// Schemes over servers whose workers take local steps: federated averaging, and outer optimizers
// that wait for no worker, or for a quorum.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "core/base/error.h"
#include "experiments/tools/check/scheme_checks.h"
#include "peer/schemes/diloco.h"
#include "ps/schemes/async_diloco.h"
#include "ps/schemes/decoupled_diloco.h"
#include "ps/schemes/fedavg.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/free_workers.h"
#include "tests/schemes/wrong_schemes.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using testing::complaint;
using testing::definition_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::reference_of;
using testing::run;
using testing::run_hindered;
using ::testing::SizeIs;
using testing::tiny;
using testing::verdict_of;
using testing::violations;
using testing::with_replay;
using testing::wrong_losses;

RunPlan plan_with(ExperimentConfig config, const std::string& scheme, Options options, int world) {
  config.scheme_options[scheme] = std::move(options);
  return plan_training(config, scheme, world);
}

// Federated averaging.

TEST(FedAvg, DrawsAsManyClientsAsItSaysAndEachEquallyOften) {
  const ps::FedAvgOptions options{.client_fraction = 0.4};
  constexpr int workers = 5, rounds = 5000;
  std::vector<int> drawn(workers);
  for (std::int64_t round = 0; round < rounds; ++round) {
    const std::vector<int> clients = ps::clients_of_round(options, 7, workers, round);
    ASSERT_THAT(clients, SizeIs(2));
    ASSERT_LT(clients[0], clients[1]);
    for (const int client : clients) ++drawn.at(static_cast<std::size_t>(client));
  }
  // 2000 are expected, with a standard deviation of 35.
  for (const int times : drawn) EXPECT_NEAR(times, 2000, 175);
  EXPECT_NE(ps::clients_of_round(options, 7, 100, 0), ps::clients_of_round(options, 8, 100, 0));
  EXPECT_THAT(ps::clients_of_round({.client_fraction = 0.01}, 1, 3, 0), SizeIs(1));
}

TEST(FedAvg, AClientThatIsNotDrawnComputesNothing) {
  auto config = tiny("mlp");
  config.train.steps = 24;
  const ps::FedAvgOptions options{.sync_every = 3, .client_fraction = 0.5};
  const RunRecord row = run(plan_with(config, "fedavg", options, 4));
  std::vector<std::int64_t> steps(4);
  for (std::int64_t round = 0; round < 8; ++round)
    for (const int client : ps::clients_of_round(options, config.train.seed, 4, round))
      steps.at(static_cast<std::size_t>(client)) += 3;
  EXPECT_EQ(row.worker_steps, steps);
  EXPECT_EQ(std::accumulate(steps.begin(), steps.end(), std::int64_t{0}), 8 * 2 * 3);
}

class UnevenClients : public ::testing::TestWithParam<std::vector<std::int64_t>> {
 protected:
  static ExperimentConfig with_shares(ExperimentConfig config) {
    config.train.shares = Shares::given;
    config.train.weights = GetParam();
    return config;
  }
  static int world() { return static_cast<int>(GetParam().size()); }
};
INSTANTIATE_TEST_SUITE_P(Shares, UnevenClients,
                         ::testing::Values(std::vector<std::int64_t>{3, 1},
                                           std::vector<std::int64_t>{2, 1, 1},
                                           std::vector<std::int64_t>{1, 2, 3}));

/// With one local step of plain SGD the mean by samples is the step of all samples.
TEST_P(UnevenClients, CountWithTheirSamples) {
  auto config = tiny("gpt");
  config.optimizer.kind = "sgd";
  config.optimizer.momentum = 0;
  config.optimizer.lr = 0.1;
  const RunRecord row =
      run(plan_with(with_shares(config), "fedavg", ps::FedAvgOptions{.sync_every = 1}, world()));
  EXPECT_THAT(wrong_losses(row, run(plan_training(config, "single", 1)), 1e-5), IsEmpty());
}

TEST_P(UnevenClients, EndWithTheBitsOfTheirDefinition) {
  for (const std::int64_t accumulation : {1, 2})
    for (const double fraction : {1.0, 0.6}) {
      auto config = with_shares(tiny("mlp"));
      config.train.accumulation = accumulation;
      config.train.evaluate_every = 2;
      config.train.evaluate_batches = 2;
      config.scheme_options["fedavg"] =
          ps::FedAvgOptions{.sync_every = 2, .client_fraction = fraction};
      const RunRecord row = run(plan_training(config, "fedavg", world()));
      EXPECT_THAT(violations(row, definition_of(config, "fedavg", world())), IsEmpty())
          << accumulation << " " << fraction;
    }
}

TEST(FedAvg, OnSeveralServersOfAnyPlacementInAnyOrderOfEvents) {
  for (const ps::Placement placement : {ps::Placement::dedicated, ps::Placement::colocated})
    for (const std::uint64_t seed : {1, 2}) {
      auto config = testing::evaluating();
      config.train.precision = seed == 1 ? Precision::fp32 : Precision::bf16;
      const ps::FedAvgOptions options{.sync_every = 2,
                                      .client_fraction = 0.5,
                                      .servers = {.servers = 3, .placement = placement}};
      config.scheme_options["fedavg"] = options;
      const RunRecord row = run_hindered(plan_training(config, "fedavg", 4), seed);
      EXPECT_THAT(violations(row, definition_of(config, "fedavg", 4)), IsEmpty());
    }
}

ps::FedAvgOptions of_half() { return {.sync_every = 2, .client_fraction = 0.5}; }

testing::Violations found_in(const SchemeInfo& wrong, int world) {
  auto config = tiny("mlp");
  config.scheme_options["fedavg"] = of_half();
  const RunRecord row = run(plan_training(config, "fedavg", world), &wrong);
  return violations(row, definition_of(config, "fedavg", world));
}

TEST(WrongFedAvg, ServersThatTakeHalfOfTheDifference) {
  SchemeInfo wrong = find_scheme("fedavg");
  wrong.serve = [serve = wrong.serve](const RankContext& context, const Options& options,
                                      Model& model, const Loader& loader) {
    auto own = options.as<ps::FedAvgOptions>();
    own.outer_lr = 0.5;
    return serve(context, own, model, loader);
  };
  EXPECT_THAT(found_in(wrong, 4),
              ::testing::Contains("the parameters of replica 0 differ from the definition's"));
}

/// A client that is not drawn trains, but what it pushes is too late, or keeps out another's.
TEST(WrongFedAvg, ClientsThatAreNotThoseOfTheRound) {
  const SchemeInfo wrong = testing::misled<ps::FedAvgOptions>(
      "fedavg", [](ps::FedAvgOptions& own) { own.client_fraction = 1; });
  EXPECT_THAT(found_in(wrong, 4),
              ::testing::Contains("the parameters of replica 0 differ from the definition's"));
}

/// The mistake is in what clients and definition share: the two agree, but no identity holds.
TEST(WrongFedAvg, WithHalfOfTheStepIsShownByIdentities) {
  SchemeInfo wrong = testing::misled<ps::FedAvgOptions>(
      "fedavg", [](ps::FedAvgOptions& own) { own.outer_lr = own.outer_lr / 2; }, true);
  wrong.serve = [serve = wrong.serve](const RankContext& context, const Options& options,
                                      Model& model, const Loader& loader) {
    auto own = options.as<ps::FedAvgOptions>();
    own.outer_lr = own.outer_lr / 2;
    return serve(context, own, model, loader);
  };
  auto config = tiny("mlp");
  config.scheme_options["fedavg"] = of_half();
  const RunPlan plan = plan_training(config, "fedavg", 2);
  EXPECT_THAT(violations(run(plan, &wrong), run(plan_definition(plan), &wrong)), IsEmpty());
  for (const Identity& identity : wrong.identities)
    EXPECT_THAT(tools::check::broken(identity, wrong, 2, testing::text_path()), Not(IsEmpty()))
        << identity.other;
}

TEST(FedAvg, RefusesWhatItsDefinitionDoesNotSay) {
  const auto refusal = [](const std::function<void(ExperimentConfig&)>& change,
                          const ps::FedAvgOptions& options = {}) {
    auto config = tiny("mlp");
    change(config);
    return complaint([&] { plan_with(config, "fedavg", options, 2); });
  };
  EXPECT_EQ(refusal([](auto&) {}), "nothing");
  EXPECT_THAT(refusal([](auto& c) { c.train.precision = Precision::fp16; }),
              HasSubstr("scheme fedavg does not train in fp16"));
  EXPECT_THAT(refusal([](auto& c) { c.train.reduce = Reduce::every; }), HasSubstr("reduce"));
  EXPECT_THAT(refusal([](auto&) {}, {.outer_momentum = 1}), HasSubstr("outer_momentum = 1"));
  EXPECT_THAT(refusal([](auto&) {}, {.servers = {.placement = ps::Placement::mixed}}),
              HasSubstr("placement = 'mixed'"));
}

// Outer optimizers that wait for no worker, or for a quorum.

struct FreeOuter {
  std::string name, scheme;
  Options options;
};
void PrintTo(const FreeOuter& one, std::ostream* out) { *out << one.name; }

std::vector<FreeOuter> outer_schemes() {
  using ps::AsyncDilocoOptions, ps::DecoupledDilocoOptions;
  return {{"async", "async_diloco", AsyncDilocoOptions{.outer = {.sync_every = 2}}},
          {"async_activated", "async_diloco",
           AsyncDilocoOptions{.outer = {.sync_every = 1},
                              .momentum_delay = 2,
                              .momentum_activation = 0.5,
                              .servers = {.servers = 2}}},
          {"async_by_speed", "async_diloco",
           AsyncDilocoOptions{.outer = {.sync_every = 3, .by_speed = true}}},
          {"async_equal", "async_diloco",
           AsyncDilocoOptions{.outer = {.sync_every = 2, .equal_steps = true},
                              .servers = {.placement = ps::Placement::colocated}}},
          {"quorum", "decoupled_diloco",
           DecoupledDilocoOptions{.outer = {.sync_every = 2}, .grace_ms = 0.1}},
          {"quorum_of_one", "decoupled_diloco",
           DecoupledDilocoOptions{.outer = {.sync_every = 1}, .quorum = 1, .grace_ms = 0}},
          {"quorum_by_speed", "decoupled_diloco",
           DecoupledDilocoOptions{.outer = {.sync_every = 3, .by_speed = true},
                                  .quorum = 1,
                                  .grace_ms = 0.5,
                                  .servers = {.servers = 2}}}};
}

class OuterReplays : public ::testing::TestWithParam<std::tuple<FreeOuter, int>> {
 protected:
  const FreeOuter& scheme() const { return std::get<0>(GetParam()); }
  int world() const { return std::get<1>(GetParam()); }
  RunPlan plan(ExperimentConfig config) const {
    return plan_with(std::move(config), scheme().scheme, scheme().options, world());
  }
};
INSTANTIATE_TEST_SUITE_P(Ps, OuterReplays,
                         ::testing::Combine(::testing::ValuesIn(outer_schemes()),
                                            ::testing::Values(2, 3, 4)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_world_" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST_P(OuterReplays, EndWithTheBitsOfTheRun) {
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    auto config = tiny("mlp");
    config.train.seed = static_cast<std::int64_t>(seed);
    config.train.steps = 7;
    config.train.evaluate_every = 2;
    config.train.evaluate_batches = 1;
    const RunRecord row = with_replay(run_hindered(plan(config), seed));
    EXPECT_EQ(verdict_of(row).proof, Proof::identical_to_replay)
        << verdict_of(row).cause << " seed " << seed;
  }
}

TEST_P(OuterReplays, WithAccumulationInBf16AndClipping) {
  auto config = tiny("gpt");
  config.train.accumulation = 2;
  config.train.precision = Precision::bf16;
  config.optimizer.clip_norm = 0.5;
  const RunRecord row = with_replay(run_hindered(plan(config), 3));
  EXPECT_EQ(verdict_of(row).proof, Proof::identical_to_replay) << verdict_of(row).cause;
}

TEST_P(OuterReplays, InTheSimulatedWorldTheSameSeedGivesTheSameRecord) {
  auto config = testing::simulated(tiny("mlp"), testing::small_cluster(1));
  config.cluster->machines = world();
  config.sim.numerics = true;
  config.sim.jitter = 0.5;
  const auto simulate_plan = [](const RunPlan& one) {
    return make_row(one, simulate(one, [](const Progress&) {}));
  };
  RunRecord row = simulate_plan(plan(config));
  row.replay = testing::replayed(row, simulate_plan);
  EXPECT_EQ(verdict_of(row).proof, Proof::identical_to_replay) << verdict_of(row).cause;
  const RunRecord again = simulate_plan(plan(config));
  for (std::size_t r = 0; r < row.ranks.size(); ++r)
    EXPECT_EQ(again.ranks[r].history, row.ranks[r].history);
}

/// The pushes of each worker, and their steps, from the history of a range.
std::vector<std::vector<std::int64_t>> pushes_in(const RunRecord& row) {
  std::vector<std::vector<std::int64_t>> steps(static_cast<std::size_t>(row.plan.world));
  for (const RankRecord& rank : row.ranks) {
    if (rank.history.empty()) continue;
    for (EventReader events(rank.history[0]); const auto event = events.peek(); events.skip())
      if (event->kind == RangeEvent::Kind::accepted)
        steps.at(static_cast<std::size_t>(event->worker)).push_back(event->steps);
    return steps;
  }
  throw Error("the run has no history");
}

/// 64 steps, of which the last worker takes each in twice the time.
ExperimentConfig slow_last(int world) {
  auto config = testing::with_a_slow_worker(world);
  config.train.steps = 64;
  return config;
}

RunRecord simulated_with(const ExperimentConfig& config, const std::string& scheme, Options options,
                         int world) {
  const RunPlan plan = plan_with(config, scheme, std::move(options), world);
  return make_row(plan, simulate(plan, [](const Progress&) {}));
}

TEST(BySpeed, AWorkerOfHalfTheSpeedTakesHalfTheSteps) {
  const RunRecord row =
      simulated_with(slow_last(3), "async_diloco",
                     ps::AsyncDilocoOptions{.outer = {.sync_every = 8, .by_speed = true}}, 3);
  const auto pushes = pushes_in(row);
  ASSERT_GE(pushes[2].size(), 4U);
  // Tickets are asked for one push ahead, so the first two are whole periods. Then it is half of
  // one, or a little less, rounded down.
  for (std::size_t i = 2; i + 1 < pushes[2].size(); ++i) {
    EXPECT_GE(pushes[2][i], 3) << i;
    EXPECT_LE(pushes[2][i], 4) << i;
  }
  for (std::size_t i = 0; i + 1 < pushes[0].size(); ++i) EXPECT_EQ(pushes[0][i], 8) << i;
  EXPECT_EQ(std::accumulate(row.worker_steps.begin(), row.worker_steps.end(), std::int64_t{0}),
            3 * 64);
}

TEST(Quorum, ASlowWorkerDoesNotHoldTheOthersUp) {
  const auto config = slow_last(4);
  const auto speed = [&](std::int64_t quorum) {
    return simulated_with(config, "decoupled_diloco",
                          ps::DecoupledDilocoOptions{
                              .outer = {.sync_every = 4}, .quorum = quorum, .grace_ms = 0},
                          4)
        .samples_per_s;
  };
  // In the time of a step of the slow worker, four that wait for each other do 4 steps. Of a quorum
  // the fast ones do 6, and the slow one 1; but at the end all wait for it.
  EXPECT_GE(speed(3) / speed(4), 1.3);
}

TEST(OuterSchemes, SendWhatTheySayThatTheyMustAndHardlyMore) {
  const auto config = slow_last(4);
  for (const Options& options : {Options(ps::AsyncDilocoOptions{.outer = {.sync_every = 8}}),
                                 Options(ps::AsyncDilocoOptions{.outer = {.sync_every = 4}})}) {
    const RunRecord row = simulated_with(config, "async_diloco", options, 4);
    const double sent = testing::busiest(row), least = row.bytes_minimum_per_step;
    EXPECT_GE(sent, least);
    EXPECT_LE(sent, 1.1 * least + 4096);
  }
}

/// A grace as long as the slow worker needs lets it take part in every merge.
TEST(Quorum, AGraceWaitsForTheSlowWorker) {
  const auto config = slow_last(3);
  const auto merges = [&](double grace_ms) {
    const RunRecord row = simulated_with(
        config, "decoupled_diloco",
        ps::DecoupledDilocoOptions{
            .outer = {.sync_every = 4, .equal_steps = true}, .quorum = 1, .grace_ms = grace_ms},
        3);
    for (const RankRecord& rank : row.ranks)
      if (!rank.history.empty())
        return std::ranges::count(rank.history[0].events, static_cast<char>('m'));
    return std::ptrdiff_t{0};
  };
  EXPECT_EQ(merges(1e6), 64 / 4) << "all three are merged each time";
  EXPECT_GT(merges(0), 64 / 4);
}

TEST(Quorum, OfAllWorkersIsDilocoInAnyOrderOfEvents) {
  auto config = tiny("mlp");
  config.scheme_options["diloco"] = peer::DilocoOptions{.sync_every = 2};
  for (const int world : {2, 3, 4}) {
    const RunRecord diloco = run(plan_training(config, "diloco", world));
    const RunRecord row = run_hindered(
        plan_with(config, "decoupled_diloco",
                  ps::DecoupledDilocoOptions{.outer = {.sync_every = 2, .equal_steps = true},
                                             .quorum = world},
                  world),
        2);
    EXPECT_THAT(wrong_losses(row, diloco, 1e-5), IsEmpty()) << world;
  }
}

/// The run of a plan whose servers or workers take other options than the plan says.
template <class Own>
RunRecord with_misled_servers(const RunPlan& plan, const std::function<void(Own&)>& change) {
  SchemeInfo wrong = find_scheme(plan.scheme);
  wrong.serve = [serve = wrong.serve, change](const RankContext& context, const Options& options,
                                              Model& model, const Loader& loader) {
    Own own = options.as<Own>();
    change(own);
    return serve(context, own, model, loader);
  };
  return with_replay(run(plan, &wrong));
}

RunPlan async_plan(int world = 2) {
  return plan_with(tiny("mlp"), "async_diloco",
                   ps::AsyncDilocoOptions{.outer = {.sync_every = 1, .equal_steps = true}}, world);
}

TEST(WrongAsyncDiloco, AMomentumThatIsNotDelayedIsFoundOut) {
  const RunRecord row = with_misled_servers<ps::AsyncDilocoOptions>(
      async_plan(), [](auto& own) { own.momentum_delay = 1; });
  EXPECT_EQ(verdict_of(row).proof, Proof::different) << verdict_of(row).cause;
}

TEST(WrongAsyncDiloco, AnotherActivationIsFoundOut) {
  const RunRecord row = with_misled_servers<ps::AsyncDilocoOptions>(
      async_plan(), [](auto& own) { own.momentum_activation = 0.25; });
  EXPECT_EQ(verdict_of(row).proof, Proof::different) << verdict_of(row).cause;
}

TEST(WrongAsyncDiloco, AWorkerThatPushesTooEarlyIsNamed) {
  const SchemeInfo wrong = testing::misled<ps::AsyncDilocoOptions>(
      "async_diloco", [](ps::AsyncDilocoOptions& own) { own.outer.sync_every = 1; });
  const RunPlan plan =
      plan_with(tiny("mlp"), "async_diloco",
                ps::AsyncDilocoOptions{.outer = {.sync_every = 2, .equal_steps = true}}, 2);
  EXPECT_THAT(with_replay(run(plan, &wrong)).replay->error,
              HasSubstr("worker 0 took 1 steps for a push, not 2"));
}

TEST(WrongQuorum, AMergeWithoutWeightsIsFoundOut) {
  auto config = slow_last(2);
  config.sim.numerics = true;
  config.train.steps = 20;
  const RunPlan plan = plan_with(
      config, "decoupled_diloco",
      ps::DecoupledDilocoOptions{.outer = {.sync_every = 4, .by_speed = true}, .quorum = 2}, 2);
  const SchemeInfo wrong = testing::misled<ps::DecoupledDilocoOptions>(
      "decoupled_diloco", [](ps::DecoupledDilocoOptions& own) { own.token_weights = false; });
  const auto simulate_with = [](const RunPlan& one, const SchemeInfo* scheme) {
    return make_row(one, simulate(
                             one, [](const Progress&) {}, scheme));
  };
  for (const SchemeInfo* scheme : {static_cast<const SchemeInfo*>(nullptr), &wrong}) {
    RunRecord row = simulate_with(plan, scheme);
    EXPECT_THAT(pushes_in(row)[0], ::testing::Contains(4));
    EXPECT_THAT(pushes_in(row)[1], ::testing::Contains(::testing::Lt(4)));
    row.replay =
        testing::replayed(row, [&](const RunPlan& one) { return simulate_with(one, nullptr); });
    const Verdict found = verdict_of(row);
    EXPECT_EQ(found.proof, scheme ? Proof::different : Proof::identical_to_replay) << found.cause;
    if (scheme) {
      EXPECT_GT(found.difference, 1e-4);
    }
  }
}

TEST(OuterOptions, ThatContradictEachOtherAreRefused) {
  const auto refusal = [](const std::string& scheme, Options options) {
    return complaint([&] { plan_with(tiny("mlp"), scheme, std::move(options), 2); });
  };
  EXPECT_THAT(refusal("async_diloco", ps::AsyncDilocoOptions{.momentum_activation = 0.6}),
              HasSubstr("momentum_activation = 0.6 must lie between 0 and 1 / 2"));
  EXPECT_THAT(refusal("async_diloco",
                      ps::AsyncDilocoOptions{.outer = {.by_speed = true, .equal_steps = true}}),
              HasSubstr("by_speed"));
  EXPECT_THAT(
      refusal("decoupled_diloco", ps::DecoupledDilocoOptions{.outer = {.outer_momentum = 1}}),
      HasSubstr("scheme.decoupled_diloco.outer_momentum = 1"));
}

}  // namespace
}  // namespace ringside::runner
