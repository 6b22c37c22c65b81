// Servers whose workers push and read codes: bytes, replays, refusals, and what is wrong on
// purpose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/free_workers.h"
#include "tests/schemes/wrong_schemes.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::plan_of;
using testing::run_hindered;
using testing::tiny;
using testing::verdict_of;
using testing::with_replay;

ps::PsOptions in_codes(const std::string& pushes, const std::string& pulls,
                       ps::Consistency consistency = ps::Consistency::bsp) {
  return {.servers = 1,
          .consistency = consistency,
          .partition_mb = 0.05,
          .compression = {.compressor = pushes, .ratio = 0.25, .block = 100},
          .pull_compressor = pulls};
}

/// Bytes that workers and the server send in a step, for a model with small headers.
std::pair<double, double> sent(const ps::PsOptions& options) {
  auto config = tiny("mlp");
  config.model.width = 160;
  config.model.layers = 3;
  const RunRecord row = testing::run(plan_of(config, options, 2));
  return {row.ranks.front().bytes_sent_per_step, row.ranks.back().bytes_sent_per_step};
}

TEST(CodesOfServers, ShrinkTheirOwnDirectionAlone) {
  const auto [up, down] = sent(in_codes("none", "none"));
  const auto [up_topk, down_topk] = sent(in_codes("topk", "none"));
  // A quarter of the elements, with their indices: 8 of 16 bytes.
  EXPECT_NEAR(up_topk / up, 0.5, 0.02);
  EXPECT_NEAR(down_topk / down, 1, 0.001);
  const auto [up_bf16, down_bf16] = sent(in_codes("none", "bf16"));
  EXPECT_NEAR(up_bf16 / up, 1, 0.001);
  EXPECT_NEAR(down_bf16 / down, 0.5, 0.02);
  const auto [up_int8, down_int8] = sent(in_codes("int8", "int8"));
  EXPECT_NEAR(up_int8 / up, 0.26, 0.02);
  EXPECT_NEAR(down_int8 / down, 0.26, 0.02);
}

TEST(CodesOfServers, AreReplayedInAnyOrderOfEvents) {
  for (const auto& [pushes, pulls] :
       {std::pair("topk", "none"), {"onebit", "int8"}, {"none", "fp16"}})
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      auto config = tiny("mlp");
      config.train.precision = precision;
      config.train.evaluate_every = 2;
      config.train.evaluate_batches = 1;
      const RunRecord row = with_replay(
          run_hindered(plan_of(config, in_codes(pushes, pulls, ps::Consistency::asp), 3), 5));
      EXPECT_EQ(verdict_of(row).proof, Proof::identical_to_replay)
          << pushes << " " << pulls << ": " << verdict_of(row).cause;
    }
}

TEST(CodesOfServers, OfColocatedAndMixedServersAndSeveralMicroBatches) {
  for (const ps::Placement placement : {ps::Placement::colocated, ps::Placement::mixed})
    for (const ps::Pull pull : {ps::Pull::overlapped, ps::Pull::barrier}) {
      auto config = testing::accumulating();
      config.optimizer.clip_norm = pull == ps::Pull::barrier ? 0.5 : 0;
      ps::PsOptions options = in_codes("topk", "int8");
      options.placement = placement;
      options.servers = 2;
      options.pull = pull;
      config.scheme_options["ps"] = options;
      const RunRecord row = testing::run(plan_training(config, "ps", 3));
      EXPECT_THAT(testing::violations(row, testing::definition_of(config, "ps", 3)),
                  ::testing::IsEmpty());
    }
}

testing::Violations found_with(const std::function<void(ps::PsOptions&)>& change) {
  auto config = tiny("mlp");
  config.scheme_options["ps"] = in_codes("topk", "int8");
  const SchemeInfo wrong = testing::misled<ps::PsOptions>("ps", change);
  const RunRecord row = testing::run(plan_training(config, "ps", 3), &wrong);
  return testing::violations(row, testing::definition_of(config, "ps", 3));
}

TEST(WrongCodesOfServers, AWorkerThatForgetsItsErrorsIsFoundOut) {
  EXPECT_THAT(found_with([](ps::PsOptions& own) { own.compression.memory = ErrorMemory::none; }),
              Contains("the parameters of replica 0 differ from the definition's"));
}

/// A server whose initial values are not those from which workers take the first differences.
TEST(WrongCodesOfServers, AServerThatBeginsWithOtherValuesIsFoundOut) {
  auto config = tiny("mlp");
  config.scheme_options["ps"] = in_codes("topk", "int8");
  SchemeInfo wrong = find_scheme("ps");
  wrong.serve = [serve = wrong.serve](const RankContext& context, const Options& options,
                                      Model& model, const Loader& loader) {
    RankContext other = context;
    other.initial_values = drawn_values(99);
    return serve(other, options, model, loader);
  };
  const RunRecord row = testing::run(plan_training(config, "ps", 3), &wrong);
  EXPECT_THAT(testing::violations(row, testing::definition_of(config, "ps", 3)),
              Contains("the parameters of replica 0 differ from the definition's"));
}

TEST(CodesOfServers, WhatServersCannotDecodeIsRefusedByName) {
  const auto refusal = [](const ps::PsOptions& options) {
    return testing::complaint([&] { plan_of(tiny("mlp"), options, 2); });
  };
  EXPECT_EQ(refusal(in_codes("topk", "int8")), "nothing");
  for (const char* together : {"powersgd", "randomk", "dgc"}) {
    EXPECT_THAT(refusal(in_codes(together, "none")),
                HasSubstr(std::string("scheme.ps.compressor = '") + together))
        << together;
    EXPECT_THAT(refusal(in_codes("none", together)), HasSubstr("scheme.ps.pull_compressor"));
  }
  EXPECT_THAT(refusal(in_codes("signsgd", "none")), HasSubstr("as votes of all workers"));
  EXPECT_THAT(refusal(in_codes("none", "nonsense")), HasSubstr("nonsense"));
  for (const ps::Consistency free : {ps::Consistency::ssp, ps::Consistency::easgd}) {
    ps::PsOptions options = in_codes("topk", "none", free);
    options.communication_period = free == ps::Consistency::easgd ? 1 : 10;
    EXPECT_THAT(refusal(options), HasSubstr("they go with consistency 'bsp'"));
  }
  ps::PsOptions grouped = in_codes("topk", "none");
  grouped.sum_group = 2;
  EXPECT_THAT(refusal(grouped), HasSubstr("sum_group = 2"));
  ps::PsOptions backup = in_codes("topk", "none");
  backup.backup_workers = 1;
  EXPECT_THAT(refusal(backup), HasSubstr("backup workers"));
  ps::PsOptions compensated = in_codes("topk", "int8", ps::Consistency::asp);
  compensated.delay_compensation = 1;
  EXPECT_THAT(refusal(compensated), HasSubstr("delay_compensation = 1"));
}

}  // namespace
}  // namespace ringside::runner
