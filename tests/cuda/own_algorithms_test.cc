// Schemes with an algorithm of their own on GPUs: they train as their definitions do on the same
// device, and runs that are proven by a replay as their replays do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/compress/compressor_info.h"
#include "experiments/runner/report/verdict.h"
#include "peer/schemes/ddp.h"
#include "peer/schemes/local_sgd.h"
#include "tests/cuda/tiny_on_gpus.h"
#include "tests/schemes/free_workers.h"
#include "tests/schemes/wrong_schemes.h"

namespace ringside::testing {
namespace {

using runner::ExperimentConfig;
using runner::Proof;
using runner::Verdict;
using ::testing::Contains;

/// The kernels are the same on both sides and repeat their bits, and messages of fp32 are added up
/// in the order of ranks here as there: at present these runs have the bits of their definitions.
/// What is left are sums of 16-bit messages: NCCL rounds the sum of three once, the definition
/// after each addition. AdamW makes large steps of small gradients too, so that the losses differ
/// by up to 4e-4 (ddp with compressor fp16).
constexpr double allowed = 1e-5, allowed_in_16_bits = 1e-3;

/// Some options begin after three steps, others exchange every four. The evaluation shows what the
/// exchange after the last step left behind.
ExperimentConfig five_steps_on_gpus(const std::string& model) {
  auto config = tiny_on_gpus(model);
  config.train.global_batch = 6;
  config.train.steps = 5;
  config.train.evaluate_every = 5;
  config.train.evaluate_batches = 1;
  return config;
}

std::vector<TriedScheme> own_algorithms() { return tried_schemes(Promise::own_algorithm); }
std::vector<TriedScheme> only(std::vector<TriedScheme> schemes,
                              const std::function<bool(const TriedScheme&)>& wanted) {
  std::erase_if(schemes, [&](const TriedScheme& one) { return !wanted(one); });
  return schemes;
}
std::vector<TriedScheme> with_defaults() {
  return only(own_algorithms(), [](const TriedScheme& one) { return !one.tried; });
}
/// Those whose messages NCCL adds up: of two numbers there is one sum, of three there are several.
std::vector<TriedScheme> summing() {
  return only(own_algorithms(), [](const TriedScheme& one) {
    if (one.info->name != "ddp") return false;
    const auto& name = one.options().as<peer::DdpOptions>().compression.compressor;
    return find_compressor(name).move == Compressor::Move::sum;
  });
}
/// The schemes whose runs are proven by a replay: by default, and consistencies of ps.
std::vector<TriedScheme> replayed_schemes() {
  std::vector<TriedScheme> out = tried_schemes(Promise::replayed);
  std::erase_if(out, [](const TriedScheme& one) {
    return one.tried && default_promise(*one.info) == Promise::replayed;
  });
  return out;
}

class OwnAlgorithmsOnGpus : public SchemeAtWorld {
 protected:
  /// A scheme that refuses GPUs, or this world, fails here with what it says.
  void expect_definition(const ExperimentConfig& config) const {
    const RunPlan plan = plan_of(config);
    const RunRecord row = run(plan), right = definition(config);
    const bool in_16_bits = runner::largest_rounding(plan) > 1e-3;
    const Verdict verdict = runner::verdict({&row}, {row, right});
    EXPECT_LT(verdict.proof, Proof::not_shown) << verdict.cause;
    EXPECT_LE(verdict.difference, in_16_bits ? allowed_in_16_bits : allowed);
    RecordProperty("difference", fmt::format("{}", verdict.difference));
    if (world() == 2) {
      EXPECT_EQ(row.parameter_hashes, right.parameter_hashes);
    }
  }
};
class OwnDefaultsOnGpus : public OwnAlgorithmsOnGpus {};
class ReplaysOnGpus : public SchemeAtWorld {};

INSTANTIATE_TEST_SUITE_P(Schemes, OwnAlgorithmsOnGpus, at_worlds(own_algorithms(), {2, 3}, 2),
                         ringside::testing::name_of_case);
INSTANTIATE_TEST_SUITE_P(Sums, OwnAlgorithmsOnGpus, at_worlds(summing(), {3}, 0),
                         ringside::testing::name_of_case);
INSTANTIATE_TEST_SUITE_P(Schemes, OwnDefaultsOnGpus, at_worlds(with_defaults(), {3}, 0),
                         ringside::testing::name_of_case);
INSTANTIATE_TEST_SUITE_P(Schemes, ReplaysOnGpus, at_worlds(replayed_schemes(), {2}, 0),
                         ringside::testing::name_of_case);

TEST_P(OwnAlgorithmsOnGpus, TrainAnMlpAsTheirDefinitionsDo) {
  expect_definition(five_steps_on_gpus("mlp"));
}

TEST_P(OwnDefaultsOnGpus, TrainAGptAsTheirDefinitionsDo) {
  auto config = five_steps_on_gpus("gpt");
  config.train.steps = config.train.evaluate_every = 2;
  expect_definition(config);
}

TEST_P(OwnDefaultsOnGpus, TrainInBf16AsTheirDefinitionsDo) {
  auto config = five_steps_on_gpus("mlp");
  config.train.precision = Precision::bf16;
  expect_definition(config);
}

TEST_P(ReplaysOnGpus, TrainAsTheirRunsDid) {
  const Verdict verdict = verdict_of(with_replay(run(plan_of(five_steps_on_gpus("mlp")))));
  EXPECT_EQ(verdict.proof, Proof::identical_to_replay) << verdict.cause;
}

TEST(SchemesOnGpus, AreAllTried) {
  std::set<std::string_view> tried, compressors;
  for (const auto& list : {own_algorithms(), replayed_schemes()})
    for (const TriedScheme& one : list) {
      tried.insert(one.info->name);
      if (one.info->name == "ddp")
        compressors.insert(one.options().as<peer::DdpOptions>().compression.compressor);
    }
  for (const SchemeInfo& info : runner::scheme_rows())
    if (!info.program && default_promise(info) != Promise::same_run) {
      EXPECT_THAT(tried, Contains(info.name));
    }
  for (const CompressorInfo& info : ringside::compressors())
    EXPECT_THAT(compressors, Contains(info.name));
}

/// Schemes that are wrong on purpose: what the limits leave of their mistakes.
TEST(WrongAlgorithmsOnGpus, DifferByMuchMoreThanIsAllowed) {
  using peer::DdpOptions;
  const auto forgets = [](DdpOptions& own) { own.compression.memory = ErrorMemory::none; };
  const auto takes_small_blocks = [](DdpOptions& own) { own.compression.block = 50; };
  const std::pair<SchemeInfo, Options> wrong[] = {
      {never_exchanging("dpsgd"), runner::find_scheme("dpsgd").defaults},
      {forgetting_last_worker("local_sgd"), peer::LocalSgdOptions{.sync_every = 1}},
      {misled<DdpOptions>("ddp", forgets),
       DdpOptions{.compression = {.compressor = "topk", .ratio = 0.25}}},
      {misled<DdpOptions>("ddp", takes_small_blocks),
       DdpOptions{.compression = {.compressor = "int8", .block = 100}}}};
  for (const auto& [info, options] : wrong) {
    const std::string name(info.name);
    auto config = five_steps_on_gpus("mlp");
    config.scheme_options[name] = options;
    const RunRecord right = definition_of(config, name, 2);
    const RunRecord row = run(runner::plan_training(config, name, 2), &info);
    const Verdict verdict = runner::verdict({&row}, {row, right});
    EXPECT_EQ(verdict.proof, Proof::different) << name;
    EXPECT_GT(verdict.difference, 10 * allowed) << name;
  }
}

}  // namespace
}  // namespace ringside::testing
