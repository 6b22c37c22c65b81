// fsdp with compressed gradients and with ZeRO++: groups that not every world has, all degrees,
// bytes and memory against closed forms, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/device/cpu/cpu_device.h"
#include "experiments/tools/check/scheme_checks.h"
#include "peer/fsdp/fsdp.h"
#include "peer/schemes/ddp.h"
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
  if (name == "powersgd") {
    out.bucket_mb = 0.01;
    out.compression = {.compressor = "powersgd", .matrix_approximation_rank = 2};
    out.zero_quantized_weights = true;
    return {name, out};
  }
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
                                           "zero_plus_plus", "powersgd"),
                         [](const auto& info) { return info.param; });

/// What is summed does not depend on what else is sharded.
TEST(CompressedShards, HaveTheSameSumsAtEveryDegree) {
  auto config = testing::accumulating();
  for (const Reduce reduce : {Reduce::last, Reduce::every})
    for (const std::string compressor : {"topk", "int8", "fp16", "powersgd"}) {
      SCOPED_TRACE(compressor);
      config.train.reduce = reduce;
      const CompressionOptions compression{.compressor = compressor, .ratio = 0.25};
      const RunRecord whole = run(plan_with(config, {.compression = compression}, 3));
      if (compressor == "powersgd" && reduce == Reduce::last) {
        config.scheme_options["ddp"] = peer::DdpOptions{.compression = compression};
        EXPECT_EQ(run(plan_training(config, "ddp", 3)).parameter_hashes, whole.parameter_hashes);
      }
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

/// The names of the degrees are tried with their own options, and have their own identities.
class ZeroWithACompressor : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(ZeroWithACompressor, HoldWithACompressor) {
  const auto& [name, world] = GetParam();
  const SchemeInfo& info = find_scheme(name);
  ASSERT_FALSE(info.tried.empty());
  for (const TriedOptions* tried : {static_cast<const TriedOptions*>(nullptr), &info.tried[0]}) {
    const tools::check::CheckedScheme one{{&info, tried}, world};
    for (const tools::check::SchemeCheck& check : tools::check::scheme_checks()) {
      if (!tried && check.name != "identities") continue;
      if (!concerns(check, one) || (check.simulates && !tools::check::can_simulate())) continue;
      EXPECT_THAT(check.run(one, testing::text_path()), IsEmpty()) << check.demand;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Registry, ZeroWithACompressor,
                         ::testing::Combine(::testing::Values("zero1", "zero2", "zero3"),
                                            ::testing::Values(2, 3)),
                         [](const auto& info) {
                           return fmt::format("{}_world_{}", std::get<0>(info.param),
                                              std::get<1>(info.param));
                         });

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

/// With a compressor that sums whole buckets, the host may update shards while backward goes on.
TEST(WholeBuckets, AreOffloadedAsShardsAre) {
  auto config = tiny("mlp");
  const FsdpOptions options{
      .bucket_mb = 0.01, .compression = {.compressor = "powersgd", .matrix_approximation_rank = 2}};
  const RunRecord here = run(plan_with(config, options, 3));
  for (const Offload offload : {Offload::optimizer, Offload::parameters}) {
    config.train.offload = offload;
    EXPECT_EQ(run(plan_with(config, options, 3)).parameter_hashes, here.parameter_hashes);
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

/// Vogels et al. (NeurIPS 2019, section 3): for each matrix r (rows + columns) values, in two
/// all-reduces; all else as it is. Parameters are gathered as they are.
TEST(WholeBuckets, SendWhatPowerSgdSendsUnderDdp) {
  constexpr double n = 4, r = 3;
  const auto device = make_cpu_device(1);
  double values = 0, count = 0;
  for (const auto& unit : make_model(wide().model, *device).units)
    for (const auto& parameter : unit->layout().parameters()) {
      const auto all = static_cast<double>(parameter.shape.count());
      const auto rows = static_cast<double>(parameter.shape[0]);
      count += all;
      values += parameter.shape.rank() < 2 ? all : r * (rows + all / rows);
    }
  for (const double bucket_mb : {0.0, 0.05}) {
    const RunRecord row =
        run(plan_with(wide(),
                      {.shard = Shard::shard_grad_op,
                       .bucket_mb = bucket_mb,
                       .compression = {.compressor = "powersgd",
                                       .matrix_approximation_rank = static_cast<std::int64_t>(r),
                                       .min_compression_rate = 0}},
                      4));
    const double expected = (n - 1) / n * 4 * count + 2 * (n - 1) / n * 4 * values;
    EXPECT_NEAR(row.bytes_minimum_per_step, expected, 1e-6 * expected);
    for (const auto& rank : row.ranks)
      EXPECT_NEAR(rank.bytes_sent_per_step, expected, 0.01 * expected) << rank.rank;
    EXPECT_GT(row.time_ms.encoding, 0);
  }
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
  EXPECT_NEAR(gradient_bytes({.compression = {.compressor = "powersgd"}}), 1 + 4, 0.01);
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
  const CompressionOptions powersgd{.compressor = "powersgd"};
  EXPECT_THAT(refusal({.shard = Shard::on_demand, .compression = powersgd}),
              HasSubstr("on_demand"));
  EXPECT_THAT(refusal({.shard = Shard::hybrid_shard, .shard_group = 2, .compression = powersgd}),
              HasSubstr("across groups"));
  EXPECT_THAT(refusal({.compression = powersgd, .zero_quantized_gradients = true}),
              HasSubstr("zero_quantized_gradients = true quantises to 'int4' or 'int8', not to "
                        "'powersgd'"));
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
