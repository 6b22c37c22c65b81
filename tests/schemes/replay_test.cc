// Workers that do not wait for each other: every run ends with the bits of its replay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "core/base/error.h"
#include "ps/protocol/parameter_server.h"
#include "ps/protocol/server_loop.h"
#include "ps/schemes/ps_parts.h"
#include "tests/schemes/free_workers.h"

namespace ringside::runner {
namespace {

using testing::FreeConsistency;
using ::testing::HasSubstr;
using testing::plan_of;
using testing::run_hindered;
using ::testing::SizeIs;
using testing::tiny;
using testing::verdict_of;
using testing::with_a_slow_worker;
using testing::with_replay;

class Replays : public ::testing::TestWithParam<std::tuple<FreeConsistency, int>> {
 protected:
  const ps::PsOptions& options() const { return std::get<0>(GetParam()).options; }
  int world() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Ps, Replays,
                         ::testing::Combine(::testing::ValuesIn(testing::ways_to_keep_in_step()),
                                            ::testing::Values(2, 3, 4)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_world_" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST_P(Replays, EndWithTheBitsOfTheRun) {
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    auto config = tiny("mlp");
    config.train.seed = static_cast<std::int64_t>(seed);
    config.train.evaluate_every = 2;
    config.train.evaluate_batches = 1;
    const RunRecord row = with_replay(run_hindered(plan_of(config, options(), world()), seed));
    const Verdict verdict = verdict_of(row);
    EXPECT_EQ(verdict.proof, Proof::identical_to_replay) << verdict.cause << " seed " << seed;
    ASSERT_TRUE(row.staleness);
    if (options().consistency == ps::Consistency::ssp) {
      EXPECT_LE(row.staleness->max, static_cast<double>(options().staleness_bound));
    }
  }
}

TEST_P(Replays, WithAccumulationAndSeveralServersAndColocatedOnes) {
  auto config = tiny("gpt");
  config.train.accumulation = 2;
  ps::PsOptions colocated = options();
  colocated.placement = ps::Placement::colocated;
  const RunRecord row = with_replay(run_hindered(plan_of(config, colocated, world()), 3));
  EXPECT_EQ(verdict_of(row).proof, Proof::identical_to_replay) << verdict_of(row).cause;
}

TEST_P(Replays, WithServersOfBothKinds) {
  // With as many dedicated servers as workers, the colocated server 0 keeps nothing.
  for (const int dedicated : {1, world()}) {
    ps::PsOptions mixed = options();
    mixed.placement = ps::Placement::mixed;
    mixed.servers = dedicated;
    mixed.partition_mb = 0.01;
    const RunRecord row = with_replay(run_hindered(plan_of(tiny("mlp"), mixed, world()), 4));
    EXPECT_EQ(verdict_of(row).proof, Proof::identical_to_replay) << verdict_of(row).cause;
  }
}

TEST_P(Replays, InTheSimulatedWorldTheSameSeedGivesTheSameRecord) {
  auto config = testing::simulated(tiny("mlp"), testing::small_cluster(1));
  config.cluster->machines = world();
  config.sim.numerics = true;
  config.sim.jitter = 0.5;
  config.train.evaluate_every = 2;
  config.train.evaluate_batches = 1;
  const RunPlan plan = plan_of(config, options(), world());
  const auto simulate_plan = [](const RunPlan& one) {
    return make_row(one, simulate(one, [](const Progress&) {}));
  };
  RunRecord row = simulate_plan(plan);
  row.replay = testing::replayed(row, simulate_plan);
  EXPECT_EQ(verdict_of(row).proof, Proof::identical_to_replay) << verdict_of(row).cause;
  const RunRecord again = simulate_plan(plan);
  EXPECT_EQ(again.loss, row.loss);
  for (std::size_t r = 0; r < row.ranks.size(); ++r)
    EXPECT_EQ(again.ranks[r].history, row.ranks[r].history);
  config.train.seed = 17;
  EXPECT_NE(simulate_plan(plan_of(config, options(), world())).loss, row.loss);
}

TEST(FreeWorkers, SspWithoutStalenessHasTheBitsOfBsp) {
  for (int world = 2; world <= 4; ++world) {
    auto config = tiny("mlp");
    const RunPlan plan =
        plan_of(config, {.consistency = ps::Consistency::ssp, .staleness_bound = 0}, world);
    EXPECT_EQ(plan.promise, Promise::same_run);
    const RunRecord row = run_hindered(plan, 5);
    EXPECT_EQ(row.parameter_hashes, testing::reference_of(config, world).parameter_hashes);
    EXPECT_FALSE(row.staleness);
  }
}

RunRecord simulated(const ExperimentConfig& config, const ps::PsOptions& options, int world) {
  const RunPlan plan = plan_of(config, options, world);
  return make_row(plan, simulate(plan, [](const Progress&) {}));
}

TEST(FreeWorkers, AFastWorkerDoesMoreStepsUnlessStepsAreEqual) {
  const auto config = with_a_slow_worker(4);
  const RunRecord row = simulated(config, {.consistency = ps::Consistency::asp}, 4);
  ASSERT_THAT(row.worker_steps, SizeIs(4));
  EXPECT_EQ(std::accumulate(row.worker_steps.begin(), row.worker_steps.end(), std::int64_t{0}),
            4 * config.train.steps);
  EXPECT_NEAR(static_cast<double>(row.worker_steps[0]) / static_cast<double>(row.worker_steps[3]),
              2, 0.2);
  const RunRecord equal =
      simulated(config, {.consistency = ps::Consistency::asp, .equal_steps = true}, 4);
  EXPECT_THAT(equal.worker_steps, SizeIs(0));
}

/// The throughput of a run, with bsp as 1.
double beside_bsp(const ExperimentConfig& config, const ps::PsOptions& options) {
  return simulated(config, options, 4).samples_per_s / simulated(config, {}, 4).samples_per_s;
}

TEST(FreeWorkers, OneAtHalfSpeedCostsAspOnlyItsOwnShare) {
  const auto config = with_a_slow_worker(4);
  // bsp does 4 worker-steps in two units of time, asp 3.5 in one.
  EXPECT_GE(beside_bsp(config, {.consistency = ps::Consistency::asp}), 1.6);
  EXPECT_GE(beside_bsp(config, {.backup_workers = 1}), 1.35);
}

/// A worker that stays slow lets the others get ahead by the bound alone: in the long run all
/// workers of ssp are as slow as the slowest one.
TEST(FreeWorkers, SspHelpsWhereSlownessPassesAndNotWhereItStays) {
  const ps::PsOptions ssp = {.consistency = ps::Consistency::ssp, .staleness_bound = 3};
  EXPECT_NEAR(beside_bsp(with_a_slow_worker(4), ssp), 1, 0.15);
  auto passing = with_a_slow_worker(4);
  passing.cluster->slow.clear();
  passing.sim.jitter = 0.7;
  EXPECT_GE(beside_bsp(passing, ssp), 1.25);
}

/// A server that does something else than its record says.
class WrongServer : public ps::ParameterServer {
 public:
  using ParameterServer::ParameterServer;

 protected:
  ps::Replies answer(int worker, ps::Message message) override {
    if (message.header.kind != ps::Kind::push_pull || message.header.step < 2 || worker != 1 ||
        done_)
      return ParameterServer::answer(worker, std::move(message));
    done_ = true;
    return wrong(worker, std::move(message));
  }
  virtual ps::Replies wrong(int worker, ps::Message message) = 0;

 private:
  bool done_ = false;
};

/// Adds one gradient twice; with easgd the values of a worker count twice.
class AppliesTwice final : public WrongServer {
 public:
  using WrongServer::WrongServer;
  ps::Replies wrong(int worker, ps::Message message) override {
    const Tensor& gradient = message.frames[0];
    const Tensor twice = device().tensor(gradient.shape(), MemoryKind::workspace);
    device().kernels().copy({.in = gradient, .out = twice});
    device().kernels().add({.in = gradient, .out = twice});
    message.frames[0] = twice;
    return ParameterServer::answer(worker, std::move(message));
  }
};

/// Answers one push of worker 1 with what it sent in reply to the worker's push before.
class ReadsLate final : public WrongServer {
 public:
  using WrongServer::WrongServer;

 protected:
  ps::Replies answer(int worker, ps::Message message) override {
    const std::int64_t range = message.header.begin;
    const bool is_push = message.header.kind == ps::Kind::push_pull;
    ps::Replies replies = WrongServer::answer(worker, std::move(message));
    if (worker == 1 && is_push) previous_[range] = copy_of(frame_for(1, replies));
    return replies;
  }
  ps::Replies wrong(int worker, ps::Message message) override {
    const Tensor& before = previous_.at(message.header.begin);
    ps::Replies replies = ParameterServer::answer(worker, std::move(message));
    frame_for(worker, replies) = before;
    return replies;
  }

 private:
  static Tensor& frame_for(int worker, ps::Replies& replies) {
    for (ps::Reply& reply : replies)
      if (reply.worker == worker) return reply.message.frames.at(0);
    throw Error("worker {} has no reply", worker);
  }
  Tensor copy_of(const Tensor& values) {
    const Tensor copy = device().tensor(values.shape(), MemoryKind::workspace);
    device().kernels().copy({.in = values, .out = copy});
    return copy;
  }

  std::map<std::int64_t, Tensor> previous_;  // by the first element of the range
};

/// Runs the plan with a server of another class.
template <class Server>
RunRecord run_with(const RunPlan& plan) {
  SchemeInfo row = find_scheme("ps");
  row.serve = [](const RankContext& context, const Options& options, Model& model, const Loader&) {
    const auto transport = context.links.transport<ps::Transport>();
    const auto& own = options.as<ps::PsOptions>();
    const ps::Connection connection = transport->listen(
        context,
        {.max_frame_bytes = ps::max_chunk_bytes, .timeout_s = context.plan.train.timeout_s});
    Server server(model, ps::chunks_of(model, context.plan.servers, own), context.device,
                  ps::server_config(context, connection.token, own));
    return ps::serve(context, *connection.channel, server, model.parameter_count());
  };
  return testing::run(plan, &row);
}

/// Steps are equal so that worker 1 surely goes on after what its server does wrong.
std::vector<RunPlan> asynchronous_plans() {
  const auto with = [](ps::PsOptions options) {
    options.servers = 1;
    options.equal_steps = true;
    return plan_of(tiny("mlp"), options, 2);
  };
  return {with({.consistency = ps::Consistency::asp}),
          with({.consistency = ps::Consistency::asp, .delay_compensation = 2}),
          with({.consistency = ps::Consistency::easgd, .communication_period = 2})};
}

TEST(FreeWorkers, AServerThatAppliesAPushTwiceIsFoundOut) {
  for (const RunPlan& plan : asynchronous_plans()) {
    const Verdict verdict = verdict_of(with_replay(run_with<AppliesTwice>(plan)));
    EXPECT_EQ(verdict.proof, Proof::different) << verdict.cause;
  }
}

TEST(FreeWorkers, AServerThatReadsOneVersionLateIsFoundOut) {
  for (const RunPlan& plan : asynchronous_plans()) {
    const Verdict verdict = verdict_of(with_replay(run_with<ReadsLate>(plan)));
    EXPECT_EQ(verdict.proof, Proof::different) << verdict.cause;
  }
}

TEST(FreeWorkers, NoGradientIsStalerThanTheRunIsLong) {
  for (RunPlan plan : asynchronous_plans()) {
    plan.train.warmup = 0;
    const RunRecord row = testing::run(plan);
    ASSERT_TRUE(row.staleness);
    EXPECT_GT(row.staleness->ms.max, 0);
    EXPECT_LT(row.staleness->ms.max, 60e3);
  }
}

TEST(FreeWorkers, ARecordThatDoesNotFitIsRefused) {
  RunRecord row = run_hindered(plan_of(tiny("mlp"), {.consistency = ps::Consistency::asp}, 2), 1);
  for (RankRecord& rank : row.ranks)
    if (!rank.history.empty()) rank.history[0].events += "p1";
  EXPECT_THAT(with_replay(std::move(row)).replay->error, HasSubstr("does not fit"));
}

TEST(FreeWorkers, WhatNeedsTheWholeModelIsRefusedByName) {
  const auto complaint = [](const std::function<void(ExperimentConfig&)>& change,
                            const ps::PsOptions& options) -> std::string {
    auto config = tiny("mlp");
    change(config);
    try {
      plan_of(config, options, 2);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  const ps::PsOptions asp = {.consistency = ps::Consistency::asp};
  const ps::PsOptions ssp = {.consistency = ps::Consistency::ssp};
  EXPECT_EQ(complaint([](auto&) {}, asp), "nothing");
  EXPECT_THAT(complaint([](auto& c) { c.optimizer.clip_norm = 1; }, asp), HasSubstr("clip_norm"));
  EXPECT_THAT(complaint([](auto& c) { c.optimizer.clip_norm = 1; }, ssp), HasSubstr("'ssp'"));
  EXPECT_THAT(complaint([](auto& c) { c.optimizer.kind = "lamb"; }, asp), HasSubstr("lamb"));
  EXPECT_THAT(complaint([](auto& c) { c.train.precision = Precision::fp16; }, asp),
              HasSubstr("bf16"));
  EXPECT_THAT(complaint([](auto& c) { c.optimizer.clip_norm = 1; }, {.backup_workers = 1}),
              HasSubstr("backup_workers"));
  const ps::PsOptions easgd = {.consistency = ps::Consistency::easgd, .communication_period = 1};
  EXPECT_EQ(complaint(
                [](auto& c) {
                  c.optimizer.kind = "lamb";
                  c.optimizer.clip_norm = 1;
                },
                easgd),
            "nothing")
      << "workers have the whole gradients of their replicas";
  EXPECT_THAT(complaint([](auto& c) { c.train.precision = Precision::fp16; }, easgd),
              HasSubstr("'easgd'"));
  EXPECT_THAT(complaint([](auto&) {}, {.consistency = ps::Consistency::easgd,
                                       .communication_period = 1,
                                       .moving_rate = 1.5}),
              HasSubstr("moving_rate = 1.5"));
  EXPECT_THAT(complaint([](auto&) {}, {.moving_rate = 0.5}), HasSubstr("'easgd' alone"));
  EXPECT_THAT(
      complaint([](auto&) {}, {.consistency = ps::Consistency::asp, .communication_period = 1}),
      HasSubstr("'easgd' alone"));
  EXPECT_THAT(complaint([](auto&) {}, {.consistency = ps::Consistency::easgd,
                                       .delay_compensation = 0.1,
                                       .communication_period = 1}),
              HasSubstr("delay_compensation = 0.1 goes with consistency 'asp' alone"));
  EXPECT_THAT(
      complaint([](auto&) {}, {.consistency = ps::Consistency::asp, .delay_compensation = -1}),
      HasSubstr("delay_compensation = -1"));
  EXPECT_THAT(complaint([](auto&) {}, {.backup_workers = 2}), HasSubstr("of 2 workers must not"));
  EXPECT_THAT(complaint([](auto&) {}, {.staleness_lr = ps::StalenessLr::inverse}),
              HasSubstr("staleness_lr"));
}

TEST(ElasticAveraging, RunsInWholePeriods) {
  const ps::PsOptions options = {.consistency = ps::Consistency::easgd, .communication_period = 3};
  RunPlan plan = plan_of(tiny("mlp"), options, 2);
  EXPECT_EQ(plan.train.steps, 6);
  plan.train.steps = 7;
  try {
    ps::check(options, plan);
    FAIL() << "7 steps are no whole periods";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("communication_period = 3: train.steps = 7 must be"));
  }
}

/// A run of 3 workers in which gradients were stale, with its replay. Where few cores do one
/// worker's step after the other's, every gradient may be of the newest values; so such runs are
/// made again.
RunRecord run_with_stale_gradients(const ps::PsOptions& options) {
  constexpr int most_runs = 20;
  RunRecord row;
  for (int i = 0; i < most_runs && (i == 0 || row.staleness->max == 0); ++i)
    row = with_replay(run_hindered(plan_of(tiny("mlp"), options, 3), 2));
  return row;
}

TEST(FreeWorkers, StaleGradientsCanHaveSmallerSteps) {
  const ps::PsOptions options = {.consistency = ps::Consistency::asp,
                                 .staleness_lr = ps::StalenessLr::inverse};
  const RunRecord row = run_with_stale_gradients(options);
  EXPECT_EQ(verdict_of(row).proof, Proof::identical_to_replay) << verdict_of(row).cause;
  EXPECT_GT(row.staleness->max, 0);
}

/// The replay of one record, as if the run had had these options.
Replay replayed_with(const RunRecord& row, const ps::PsOptions& options) {
  RunRecord other = row;
  other.plan.options = options;
  return *with_replay(std::move(other)).replay;
}

TEST(FreeWorkers, StaleGradientsAreCompensated) {
  ps::PsOptions options = {.consistency = ps::Consistency::asp,
                           .staleness_lr = ps::StalenessLr::inverse,
                           .delay_compensation = 2};
  const RunRecord row = run_with_stale_gradients(options);
  EXPECT_EQ(verdict_of(row).proof, Proof::identical_to_replay) << verdict_of(row).cause;
  ASSERT_GT(row.staleness->max, 0);
  EXPECT_EQ(replayed_with(row, options).parameter_hashes, row.parameter_hashes);
  options.delay_compensation = 0;
  EXPECT_NE(replayed_with(row, options).parameter_hashes, row.parameter_hashes);
}

TEST(FreeWorkers, ASingleWorkerHasNothingToCompensate) {
  ps::PsOptions options = {.consistency = ps::Consistency::asp};
  const RunRecord without = testing::run(plan_of(tiny("mlp"), options, 1));
  options.delay_compensation = 2;
  const RunRecord with = testing::run(plan_of(tiny("mlp"), options, 1));
  EXPECT_EQ(with.staleness->max, 0);
  EXPECT_EQ(with.parameter_hashes, without.parameter_hashes);
}

TEST(ElasticAveraging, TheRateSaysHowFarWorkersAreFromEachOther) {
  ps::PsOptions options = {.consistency = ps::Consistency::easgd, .communication_period = 1};
  EXPECT_EQ(ps::moving_rate_of(options, 3), 0.9 / 3);
  auto config = tiny("mlp");
  const RunRecord weak = with_replay(run_hindered(plan_of(config, options, 3), 2));
  EXPECT_EQ(verdict_of(weak).proof, Proof::identical_to_replay) << verdict_of(weak).cause;
  options.moving_rate = 0.9;
  EXPECT_NE(replayed_with(weak, options).parameter_hashes, weak.parameter_hashes);
}

/// With a rate of 1 the centre takes the worker's place in an exchange.
TEST(ElasticAveraging, ASingleWorkerTrainsAsWithoutServers) {
  auto config = tiny("mlp");
  config.train.steps = 6;
  config.train.evaluate_every = 6;
  config.train.evaluate_batches = 1;
  const ps::PsOptions options = {
      .consistency = ps::Consistency::easgd, .communication_period = 6, .moving_rate = 1};
  const RunRecord alone = testing::run(plan_of(config, options, 1));
  const RunRecord trained = testing::run(plan_of(config, {}, 1));
  EXPECT_EQ(alone.loss, trained.loss);
  ASSERT_THAT(alone.evaluations, SizeIs(1));
  EXPECT_NEAR(alone.evaluations[0].loss, trained.evaluations.at(0).loss, 1e-5);
}

/// With a rate of 1 and plain SGD a worker and the centre change places in every exchange. So the
/// worker computes the losses of steps 0 and 1 from the initial values, and that of step 2 from the
/// values after step 0.
TEST(ElasticAveraging, AWorkerTakesThePlaceOfTheCentre) {
  auto config = tiny("mlp");
  config.optimizer.kind = "sgd";
  config.optimizer.momentum = config.optimizer.weight_decay = 0;
  config.optimizer.lr = 0.1;
  const ps::PsOptions options = {
      .consistency = ps::Consistency::easgd, .communication_period = 1, .moving_rate = 1};
  const RunRecord elastic = testing::run(plan_of(config, options, 1));
  const RunRecord trained = testing::run(plan_of(config, {}, 1));
  config.optimizer.lr = 0;
  const RunRecord initial = testing::run(plan_of(config, {}, 1));
  EXPECT_EQ(elastic.loss.at(0), initial.loss.at(0));
  EXPECT_NEAR(elastic.loss.at(1), initial.loss.at(1), 1e-5);
  EXPECT_GT(std::abs(elastic.loss.at(1) - trained.loss.at(1)), 1e-3);
  EXPECT_GT(std::abs(elastic.loss.at(2) - initial.loss.at(2)), 1e-3);
}

TEST(ElasticAveraging, InBf16WithClippingAndLambAndAccumulation) {
  auto config = tiny("gpt");
  config.train.precision = Precision::bf16;
  config.train.accumulation = 2;
  config.train.evaluate_every = 2;
  config.train.evaluate_batches = 1;
  config.optimizer.kind = "lamb";
  config.optimizer.clip_norm = 1;
  const RunRecord row = with_replay(run_hindered(
      plan_of(config, {.consistency = ps::Consistency::easgd, .communication_period = 3}, 3), 1));
  EXPECT_EQ(verdict_of(row).proof, Proof::identical_to_replay) << verdict_of(row).cause;
}

TEST(ElasticAveraging, AFastWorkerDoesMoreStepsUnlessStepsAreEqual) {
  auto config = with_a_slow_worker(4);
  config.train.steps = 40;
  ps::PsOptions options = {.consistency = ps::Consistency::easgd, .communication_period = 4};
  const RunRecord row = simulated(config, options, 4);
  ASSERT_THAT(row.worker_steps, SizeIs(4));
  EXPECT_EQ(std::accumulate(row.worker_steps.begin(), row.worker_steps.end(), std::int64_t{0}),
            4 * config.train.steps);
  EXPECT_GT(row.worker_steps[0], row.worker_steps[3]);
  options.equal_steps = true;
  EXPECT_THAT(simulated(config, options, 4).worker_steps, SizeIs(0));
}

TEST(ElasticAveraging, BytesShrinkWithThePeriod) {
  auto config = tiny("mlp");
  config.train.steps = 40;
  const auto sent = [&](std::int64_t period) {
    const RunRecord row = testing::run(plan_of(
        config, {.consistency = ps::Consistency::easgd, .communication_period = period}, 1));
    EXPECT_GE(row.ranks[0].bytes_sent_per_step, row.bytes_minimum_per_step);
    return row.ranks[0].bytes_sent_per_step;
  };
  EXPECT_NEAR(sent(1) / sent(10), 10, 1);
}

}  // namespace
}  // namespace ringside::runner
