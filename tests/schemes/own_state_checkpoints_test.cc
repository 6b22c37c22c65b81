// Runs of every scheme that go on from a checkpoint: what a scheme keeps from one step to the next,
// such as outer momenta, error memories and messages on their way, is a part of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "experiments/tools/check/resumption.h"
#include "peer/fsdp/fsdp.h"
#include "peer/schemes/ddp.h"
#include "peer/schemes/diloco.h"
#include "peer/schemes/onebit_adam.h"
#include "peer/schemes/sgp.h"
#include "ps/schemes/async_diloco.h"
#include "ps/schemes/fedavg.h"
#include "ps/schemes/ps.h"
#include "tests/schemes/checkpointed_runs.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/wrong_rules.h"
#include "tests/schemes/wrong_schemes.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using testing::complaint;
using ::testing::IsEmpty;
using testing::saving;
using testing::SchemeAtWorld;
using testing::TemporaryFolder;
using testing::tiny;
using testing::TriedScheme;
using tools::check::after_going_on;

/// All rows of this program, and all options that they are tried with, whose runs can go on.
std::vector<SchemeAtWorld::ParamType> every_resuming_scheme() {
  std::vector<SchemeAtWorld::ParamType> out;
  for (const SchemeInfo& info : scheme_rows()) {
    if (!info.resumes || info.max_world == 1 || info.program) continue;
    std::vector<TriedScheme> all = {{&info}};
    for (const TriedOptions& tried : info.tried) all.push_back({&info, &tried});
    for (const TriedScheme& one : all) {
      if (!info.resumes(one.options())) continue;
      out.emplace_back(one, 3);
      if (one.promise() == Promise::same_run) out.emplace_back(one, 2);
    }
  }
  return out;
}

class Resumption : public SchemeAtWorld {};

TEST_P(Resumption, EndsWithTheBitsOfTheUnbrokenRun) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    auto config = tiny("mlp");
    config.train.precision = precision;
    config.train.evaluate_every = 2;
    config.train.evaluate_batches = 2;
    // Micro-batches of one precision, as the other has none.
    config.train.accumulation = precision == Precision::fp32 ? 2 : 1;
    EXPECT_THAT(after_going_on(plan_of(config), {1, 3, 4}), IsEmpty()) << name_of(precision);
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, Resumption, ::testing::ValuesIn(every_resuming_scheme()),
                         testing::name_of_case);

RunPlan plan_with(const std::string& scheme, const Options& options, int world,
                  ExperimentConfig config = tiny("mlp")) {
  config.scheme_options[scheme] = options;
  if (!find_scheme(scheme).optimizer.empty()) {
    config.optimizer.kind = find_scheme(scheme).optimizer;
    config.optimizer.epsilon = 1e-3;
  }
  return plan_training(config, scheme, world);
}

/// Compressors count their steps, and a step may have several.
TEST(ResumedCompressors, CountSumsOfMicroBatches) {
  auto config = tiny("mlp");
  config.train.accumulation = 2;
  config.train.reduce = Reduce::every;
  for (const CompressionOptions& compression :
       {CompressionOptions{.compressor = "int8", .block = 100},
        {.compressor = "dgc", .ratio = 0.1, .start_step = 7},
        {.compressor = "powersgd", .warm_start = false, .start_step = 3}}) {
    const peer::FsdpOptions own{.compression = compression};
    EXPECT_THAT(after_going_on(plan_with("fsdp", own, 2, config), {1, 3}), IsEmpty())
        << compression.compressor;
  }
}

/// qgZ sums twice, and hosts may remember the errors of their sums.
TEST(ResumedCompressors, HaveErrorsOfHosts) {
  const peer::FsdpOptions own{
      .compression = {.compressor = "int8", .memory = ErrorMemory::residual, .block = 100},
      .zero_hpz_partition_size = 2,
      .zero_quantized_gradients = true};
  EXPECT_THAT(after_going_on(plan_with("fsdp", own, 4), {1, 3}), IsEmpty());
}

TEST(ResumedReplicas, HaveRunningStatisticsOfTheirOwn) {
  auto config = testing::tiny_resnet();
  config.train.evaluate_every = 2;
  config.train.evaluate_batches = 1;
  config.train.accumulation = 2;
  config.optimizer.kind = "sgd";
  for (const char* scheme : {"independent", "local_sgd"})
    EXPECT_THAT(after_going_on(plan_training(config, scheme, 3), {1, 3}), IsEmpty()) << scheme;
}

/// A run is told to stop on one worker, and all must agree (RunCheckpoints::asked).
class AsksAllWorkers : public testing::Wrapped {
 public:
  using Wrapped::Wrapped;
  bool step(const StepInfo& info) override {
    const bool done = Wrapped::step(info);
    double values[] = {1, context().self().worker == 1 ? 0.25 : 0};
    sum(values);
    EXPECT_THAT(values, ::testing::ElementsAre(3, 0.25));
    return done;
  }
};

TEST(ResumedReplicas, AgreeOnTheStepAfterWhichTheyStop) {
  for (const char* name : {"independent", "local_sgd", "sgp"}) {
    const SchemeInfo scheme = testing::wrapping<AsksAllWorkers>(name);
    const TemporaryFolder folder;
    saving(plan_training(tiny("mlp"), name, 3), folder, false, &scheme);
  }
}

/// A worker that shows all of its state but this.
class ForgetsState : public testing::Wrapped {
 public:
  ForgetsState(const RankContext& context, std::unique_ptr<SyncScheme> right, std::string state)
      : Wrapped(context, std::move(right)), state_(std::move(state)) {}
  void visit_state(const StateVisitor& visit) override {
    Wrapped::visit_state([&](const StateRange& range) {
      if (!range.name.starts_with(state_)) visit(range);
    });
  }

 private:
  std::string state_;
};

SchemeInfo forgetting(const std::string& scheme, const std::string& state) {
  SchemeInfo row = find_scheme(scheme);
  row.make = [make = row.make, state](const RankContext& context, const Options& options) {
    return std::make_unique<ForgetsState>(context, make(context, options), state);
  };
  return row;
}

struct Forgotten {
  const char* state;
  const char* scheme;
  Options options;
  friend std::ostream& operator<<(std::ostream& out, const Forgotten& one) {
    return out << one.state << " of " << one.scheme;
  }
};

class ForgottenState : public ::testing::TestWithParam<Forgotten> {};

TEST_P(ForgottenState, IsNamed) {
  const auto& [state, name, options] = GetParam();
  const RunPlan plan = plan_with(name, options, 3);
  const SchemeInfo scheme = forgetting(name, state);
  EXPECT_THAT(after_going_on(plan, {4}, &scheme),
              ::testing::Contains(::testing::HasSubstr("the parameters of replica 0 differ")));
  EXPECT_THAT(after_going_on(plan, {4}), IsEmpty()) << "the right one";
}

std::vector<Forgotten> all_forgotten() {
  const auto ddp = [](const CompressionOptions& compression) {
    return peer::DdpOptions{.compression = compression};
  };
  const CompressionOptions topk{.compressor = "topk", .ratio = 0.25},
      dgc{.compressor = "dgc", .ratio = 0.1},
      powersgd{.compressor = "powersgd", .matrix_approximation_rank = 2};
  const peer::DilocoOptions diloco{.sync_every = 2},
      delayed{.sync_every = 3, .fragment_sync_delay = 2};
  const peer::OnebitAdamOptions onebit{.freeze_step = 2};
  const peer::SgpOptions star{.graph = peer::Graph::star};
  // After 3 of these steps messages are here that nobody has taken.
  const peer::SgpOptions overlap{.overlap = 3};
  return {
      {"first_moment", "local_sgd", find_scheme("local_sgd").defaults},
      {"outer_parameters", "diloco", diloco},
      {"outer_momentum", "diloco", diloco},
      {"given_after", "diloco", delayed},
      {"message_sum", "diloco", delayed},
      {"push_sum_x", "sgp", star},
      {"push_sum_weight", "sgp", star},
      {"push_sum_z", "sgp", star},
      {"message", "sgp", overlap},
      {"error_memory", "ddp", ddp(topk)},
      {"error_memory", "fsdp", peer::FsdpOptions{.compression = topk}},
      {"dgc_velocity", "ddp", ddp(dgc)},
      {"dgc_accumulation", "ddp", ddp(dgc)},
      {"powersgd_q", "ddp", ddp(powersgd)},
      {"powersgd_q", "fsdp", peer::FsdpOptions{.compression = powersgd}},
      {"compressor_steps", "ddp", ddp({.compressor = "int8", .block = 100})},
      {"compressor_steps", "fsdp",
       peer::FsdpOptions{.compression = {.compressor = "randomk", .ratio = 0.25}}},
      {"frozen_second_moment", "onebit_adam", onebit},
      {"worker_error", "onebit_adam", onebit},
      {"server_error", "onebit_adam", onebit},
      {"error_memory", "ps", ps::PsOptions{.compression = topk}},
      {"push_codes", "ps", ps::PsOptions{.compression = {.compressor = "int8", .block = 100}}},
      {"begun_parameters", "fedavg", ps::FedAvgOptions{.sync_every = 3}},
      {"first_moment", "fedavg", ps::FedAvgOptions{.sync_every = 3}},
      {"error_memory", "ps",
       ps::PsOptions{.consistency = ps::Consistency::asp, .compression = {.compressor = "onebit"}}},
      {"parameters", "ps",
       ps::PsOptions{.consistency = ps::Consistency::easgd, .communication_period = 1}},
      {"first_moment", "async_diloco", ps::AsyncDilocoOptions{.outer = {.sync_every = 2}}}};
}

INSTANTIATE_TEST_SUITE_P(OfSchemes, ForgottenState, ::testing::ValuesIn(all_forgotten()),
                         [](const auto& info) {
                           return fmt::format("{}_of_{}_{}", info.param.state, info.param.scheme,
                                              info.index);
                         });

/// A frozen second moment is not taken for one that moves on.
TEST(ForgottenMomenta, ThatWereFrozenAreMissed) {
  const RunPlan plan = plan_with("onebit_adam", peer::OnebitAdamOptions{.freeze_step = 2}, 2);
  const SchemeInfo wrong = forgetting("onebit_adam", "is_frozen");
  EXPECT_THAT(complaint([&] { after_going_on(plan, {3}, &wrong); }),
              ::testing::HasSubstr("no file of the checkpoint has value 0 of second_moment"));
}

/// The field's classic.
TEST(ForgottenMomenta, OfTheOuterOptimizerAreNamed) {
  const RunPlan plan = plan_with("diloco", peer::DilocoOptions{.sync_every = 2}, 2);
  const SchemeInfo wrong =
      testing::ruled_by<testing::ForgetsTheOuterMomentum>("diloco", peer::make_diloco_rule);
  EXPECT_THAT(after_going_on(plan, {3}, &wrong),
              ::testing::Contains(::testing::HasSubstr("the parameters of replica 0 differ")));
  const SchemeInfo right =
      testing::ruled_by<testing::WrappedRule>("diloco", peer::make_diloco_rule);
  EXPECT_THAT(after_going_on(plan, {3}, &right), IsEmpty());
}

}  // namespace
}  // namespace ringside::runner
