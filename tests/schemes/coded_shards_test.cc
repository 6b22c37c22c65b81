// fsdp with compressed gradients and with ZeRO++: groups that not every world has, all degrees,
// bytes and memory against closed forms, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/tools/check/scheme_checks.h"
#include "peer/fsdp/fsdp.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using peer::FsdpOptions;
using peer::Shard;
using testing::complaint;
using testing::definition_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::run;
using testing::tiny;
using testing::violations;

RunPlan plan_with(ExperimentConfig config, const FsdpOptions& options, int world) {
  config.scheme_options["fsdp"] = options;
  return plan_training(config, "fsdp", world);
}

/// On two hosts, of which the worlds of the registry's own options have none.
TriedOptions on_two_hosts(std::string_view name) {
  FsdpOptions out{.zero_hpz_partition_size = 2};
  if (name == "hpz") return {name, out};
  out.zero_quantized_gradients = true;
  out.compression.block = 100;
  if (name == "qgz_in_buckets") out.bucket_mb = 0.01;
  if (name == "qgz_with_errors")
    out.compression = {.compressor = "int8", .memory = ErrorMemory::residual, .block = 100};
  if (name == "zero_plus_plus") out.zero_quantized_weights = true;
  return {name, out};
}

class OnTwoHosts : public ::testing::TestWithParam<std::string> {};

TEST_P(OnTwoHosts, EverySchemesChecksHold) {
  const TriedOptions tried = on_two_hosts(GetParam());
  const tools::check::CheckedScheme one{{&find_scheme("fsdp"), &tried}, 4};
  for (const tools::check::SchemeCheck& check : tools::check::scheme_checks()) {
    if (!concerns(check, one) || (check.simulates && !tools::check::can_simulate())) continue;
    EXPECT_THAT(check.run(one, testing::text_path()), IsEmpty()) << check.demand;
  }
}
INSTANTIATE_TEST_SUITE_P(Fsdp, OnTwoHosts,
                         ::testing::Values("hpz", "qgz", "qgz_in_buckets", "qgz_with_errors",
                                           "zero_plus_plus"),
                         [](const auto& info) { return info.param; });

/// What is summed does not depend on what else is sharded.
TEST(CompressedShards, HaveTheSameSumsAtEveryDegree) {
  auto config = testing::accumulating();
  for (const Reduce reduce : {Reduce::last, Reduce::every})
    for (const char* compressor : {"topk", "int8", "fp16"}) {
      SCOPED_TRACE(compressor);
      config.train.reduce = reduce;
      const CompressionOptions compression{.compressor = compressor, .ratio = 0.25};
      const RunRecord whole = run(plan_with(config, {.compression = compression}, 3));
      for (const auto& [name, shard] :
           {std::pair<std::string, Shard>{"zero1", Shard::shard_optimizer},
            {"zero2", Shard::shard_grad_op},
            {"zero3", Shard::full_shard}}) {
        config.scheme_options[name] = FsdpOptions{.shard = shard, .compression = compression};
        const RunRecord row = run(plan_training(config, name, 3));
        EXPECT_THAT(violations(row, definition_of(config, name, 3)), IsEmpty()) << name;
        EXPECT_EQ(row.parameter_hashes, whole.parameter_hashes) << name;
      }
    }
}

/// The parameters that a run ends with are those that it updates, not those that it gathers.
TEST(QuantisedWeights, TrainInSixteenBitsWithStepsThatOverflow) {
  auto config = tiny("mlp");
  config.train.steps = 12;
  config.optimizer.kind = "sgd";
  config.optimizer.lr = 3;
  config.train.precision = Precision::fp16;
  config.scheme_options["fsdp"] = FsdpOptions{.zero_quantized_weights = true};
  const RunRecord row = run(plan_training(config, "fsdp", 2));
  EXPECT_GT(row.ranks[0].skipped_steps, 0);
  const RunRecord definition = definition_of(config, "fsdp", 2);
  EXPECT_THAT(testing::wrong_parameters(row, definition), IsEmpty());
  EXPECT_THAT(testing::wrong_losses(row, definition), IsEmpty());
}

TEST(QuantisedWeights, AreOffloadedAsOthersAre) {
  auto config = tiny("mlp");
  const FsdpOptions options{.zero_quantized_weights = true, .zero_hpz_partition_size = 2};
  const RunRecord here = run(plan_with(config, options, 4));
  for (const Offload offload : {Offload::optimizer, Offload::parameters}) {
    config.train.offload = offload;
    EXPECT_EQ(run(plan_with(config, options, 4)).parameter_hashes, here.parameter_hashes);
  }
}

/// A model so wide that padding and norms of small tensors do not count.
ExperimentConfig wide() {
  auto config = tiny("mlp");
  config.model.width = 160;
  config.model.layers = 3;
  return config;
}

/// The bytes that Wang et al. (ICLR 2024, table 1) give, for N ranks on hosts of L: forward gathers
/// from all, backward within the host, gradients in two steps.
TEST(ZeroPlusPlus, SendsWhatThePaperSays) {
  constexpr double n = 4, l = 2, hosts = n / l, block = 256;
  const auto expect_bytes = [](const FsdpOptions& options, const auto& of) {
    const RunRecord row = run(plan_with(wide(), options, 4));
    const double expected = of(static_cast<double>(row.parameters));
    for (const auto& rank : row.ranks)
      EXPECT_NEAR(rank.bytes_sent_per_step, expected, 0.01 * expected) << rank.rank;
  };
  const double coded8 = 1 + 4 / block, coded4 = 0.5 + 4 / block;
  const double all = (n - 1) / n, host = (l - 1) / l;
  expect_bytes({.zero_quantized_weights = true},
               [&](double count) { return all * count * (2 * coded8 + 4); });
  expect_bytes({.zero_hpz_partition_size = 2},
               [&](double count) { return count * (all * 4 + host * 4 + all * 4); });
  expect_bytes({.zero_quantized_gradients = true},
               [&](double count) { return all * count * (4 + 4 + coded4); });
  expect_bytes({.zero_quantized_weights = true,
                .zero_hpz_partition_size = 2,
                .zero_quantized_gradients = true},
               [&](double count) {
                 const double gradients = host * coded4 + (hosts - 1) / hosts * coded4 / l;
                 return count * (all * coded8 + host * 4 + gradients);
               });
  expect_bytes({.compression = {.compressor = "onebit"}},
               [&](double count) { return all * count * (4 + 4 + 1.0 / 8); });
}

/// An error is known to the rank that made it alone, so its memory is whole where gradients are
/// sharded.
TEST(CompressedShards, RememberWholeGradients) {
  const auto gradient_bytes = [](const FsdpOptions& options) {
    const RunRecord row = run(plan_with(wide(), options, 4));
    return static_cast<double>(row.ranks[0].at_peak[MemoryKind::gradient]) /
           static_cast<double>(row.parameters);
  };
  EXPECT_NEAR(gradient_bytes({.compression = {.compressor = "int8"}}), 1, 0.01) << "a shard";
  EXPECT_NEAR(gradient_bytes({.compression = {.compressor = "topk"}}), 1 + 4, 0.01);
  const CompressionOptions with_errors{.compressor = "int4", .memory = ErrorMemory::residual};
  EXPECT_NEAR(gradient_bytes({.compression = with_errors,
                              .zero_hpz_partition_size = 2,
                              .zero_quantized_gradients = true}),
              1 + 4 + 2, 0.01)
      << "and the half that this rank sums for its host";
}

TEST(CompressedShards, AreRefusedWhereSumsAreOthers) {
  const auto refusal = [](const FsdpOptions& options, int world = 4) {
    return complaint([&] { plan_with(tiny("mlp"), options, world); });
  };
  const CompressionOptions topk{.compressor = "topk"};
  EXPECT_THAT(refusal({.compression = {.compressor = "powersgd"}}),
              HasSubstr("scheme.fsdp.compressor = 'powersgd': shards cut tensors"));
  EXPECT_THAT(refusal({.shard = Shard::no_shard, .compression = topk}),
              HasSubstr("use scheme ddp"));
  EXPECT_THAT(refusal({.shard = Shard::on_demand, .compression = topk}), HasSubstr("on_demand"));
  EXPECT_THAT(refusal({.shard = Shard::hybrid_shard, .shard_group = 2, .compression = topk}),
              HasSubstr("across groups"));
  EXPECT_THAT(refusal({.algorithm = Algorithm::ring, .compression = topk}),
              HasSubstr("scheme.fsdp.algorithm = 'ring'"));
  EXPECT_THAT(refusal({.shard = Shard::shard_grad_op, .zero_quantized_weights = true}),
              HasSubstr("zero_quantized_weights = true is for shard = 'full_shard'"));
  EXPECT_THAT(refusal({.zero_hpz_partition_size = 2}, 3), HasSubstr("does not divide world 3"));
  EXPECT_THAT(refusal({.reshard_after_forward = false, .zero_hpz_partition_size = 2}),
              HasSubstr("second gathering"));
  EXPECT_THAT(refusal({.compression = topk, .zero_quantized_gradients = true}),
              HasSubstr("not to 'topk'"));
}

}  // namespace
}  // namespace ringside::runner
