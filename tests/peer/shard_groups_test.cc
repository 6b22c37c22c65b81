// fsdp's groups of ranks: what crosses from one group to another, what a group of one rank does not
// do, and groups that mean nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "core/base/error.h"
#include "peer/fsdp/fsdp.h"
#include "peer/fsdp/gradient_shards.h"
#include "tests/peer/training.h"

namespace ringside {
namespace {

using namespace testing;
using peer::FsdpOptions;
using peer::Shard;

/// Zhao et al. (section 3.2.2) give 2 M (W - 1) / (G W) bytes between groups of G for each of W
/// GPUs and a model of M bytes. Precisely, the all-reduce of a shard sends 2 M (W - G) / (G W).
TEST(HybridSharding, SendsOneShardAcrossGroups) {
  constexpr int world = 6, group = 3;
  const Training training{.world = world, .steps = 1};
  std::atomic<std::int64_t> within{0}, across{0};
  std::int64_t bytes = 0;
  run_ranks(world, [&](const Rank& r) {
    Scene s(r, training);
    const peer::Mesh mesh(s.context, group, Algorithm::native);
    EXPECT_EQ(mesh.shard(), r.rank % group);
    const peer::FsdpUnits fsdp_units(s.model, 0);
    const peer::Shards shards(fsdp_units, mesh.shard(), mesh.shards());
    const peer::ShardedStorage parameters(s.context, shards, false, MemoryKind::parameter,
                                          DType::f32);
    const auto carrier =
        peer::make_collective_carrier(s.context, *mesh.within(), shards, parameters);
    const peer::GradientBuckets buckets(shards.fsdp_units(), DType::f32, 0);
    peer::GradientShards gradients(s.context, shards, buckets, mesh, carrier.get(), false);
    for (std::size_t u = s.model.units.size(); u-- > 0;) {
      r.device.kernels().fill({.out = gradients.target(u, Pass{}), .value = 1});
      gradients.reduce(u, Pass{});
    }
    gradients.finish_all();
    for (std::size_t u = 0; u < shards.size(); ++u) {
      const auto sums = gradients.sums().shard(u).span<float>();
      const auto real = static_cast<std::size_t>(shards.real_count(u));
      for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(sums[i], i < real ? world : 0);
    }
    within += mesh.within()->traffic().sent;
    across += mesh.across()->traffic().sent;
    EXPECT_EQ(mesh.traffic().sent, mesh.within()->traffic().sent + mesh.across()->traffic().sent);
    if (r.rank == 0) bytes = 4 * shards.whole_count();
  });
  EXPECT_EQ(within, bytes * (group - 1) / group * world);
  EXPECT_EQ(across, 2 * bytes * (world - group) / group);
  EXPECT_LE(across, 2 * bytes * (world - 1) / group);
}

/// One rank computes in the parameters and gradients that it keeps.
TEST(ShardingOfOneRank, CopiesNothing) {
  for (const Shard shard : {Shard::no_shard, Shard::shard_optimizer, Shard::shard_grad_op,
                            Shard::full_shard, Shard::hybrid_shard}) {
    const std::int64_t group = shard == Shard::hybrid_shard ? 1 : 0;
    const Training training{.world = 1, .micro_batches = 2};
    run_ranks(1, [&](const Rank& r) {
      Scene s(r, training);
      const auto scheme = peer::make_fsdp(s.context, {.shard = shard, .shard_group = group});
      scheme->attach(s.model);
      std::vector<const float*> addresses;
      const auto look = [&](int, const Unit&, const Tensor& values) {
        addresses.push_back(values.data<float>());
      };
      scheme->visit_parameters(look);
      for (std::size_t u = 0; u + 1 < addresses.size(); ++u)
        EXPECT_EQ(addresses[u] + s.model.units[u]->layout().count(), addresses[u + 1]);
      const auto before = std::exchange(addresses, {});
      train(training, s.context, s.model, *scheme,
            [&] { EXPECT_EQ(r.device.ledger().current()[MemoryKind::communication], 0); });
      double values[] = {1.0};
      scheme->sum(values);
      scheme->visit_parameters(look);
      EXPECT_EQ(addresses, before);
      EXPECT_EQ(scheme->traffic().sent + scheme->traffic().received, 0);
      for (const auto& slice : s.timeline.slices(0)) {
        EXPECT_NE(slice.activity, "communication") << slice.name;
        EXPECT_NE(slice.activity, "exposed") << slice.name;
      }
    });
  }
}

TEST(OptionsOfSharding, AreRefusedIfTheyMeanNothing) {
  const auto complaint = [](int world, const FsdpOptions& options,
                            const std::string& device = "cpu") -> std::string {
    RunPlan plan = Training{.world = world}.plan();
    plan.scheme = "fsdp";
    plan.device.kind = device;
    try {
      peer::check(options, plan);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(complaint(4, {.shard = Shard::hybrid_shard, .shard_group = 3}),
            "scheme.fsdp.shard_group = 3 does not divide world 4; choose a divisor");
  EXPECT_EQ(complaint(4, {.shard = Shard::hybrid_shard_zero2}),
            "scheme.fsdp.shard = 'hybrid_shard_zero2' shards within groups of ranks; set "
            "scheme.fsdp.shard_group to the number of ranks of a group");
  EXPECT_EQ(complaint(4, {.shard = Shard::full_shard, .shard_group = 2}),
            "scheme.fsdp.shard_group = 2 means nothing with shard = 'full_shard', which knows no "
            "groups; leave it out, or set scheme.fsdp.shard to 'hybrid_shard', "
            "'hybrid_shard_zero2' or 'hybrid_shard_zero1'");
  EXPECT_EQ(complaint(4, {.shard = Shard::shard_grad_op, .reshard_after_forward = false}),
            "scheme.fsdp.reshard_after_forward = false means nothing with shard = "
            "'shard_grad_op', which keeps parameters whole; leave it out, or set shard to "
            "'full_shard', 'on_demand' or 'hybrid_shard'");
  EXPECT_EQ(complaint(4, {.shard = Shard::shard_optimizer, .read_in_place = false}),
            "scheme.fsdp.read_in_place = false means nothing with shard = 'shard_optimizer', which "
            "keeps parameters whole; leave it out, or set shard to 'full_shard', 'on_demand' or "
            "'hybrid_shard'");
  EXPECT_EQ(complaint(4, {.shard = Shard::on_demand, .algorithm = Algorithm::ring}),
            "scheme.fsdp.algorithm = 'ring' means nothing with shard = 'on_demand', which has no "
            "collectives; leave it out");
  EXPECT_THAT(complaint(4, {.shard = Shard::on_demand, .bucket_mb = 1}),
              ::testing::StartsWith("scheme.fsdp.bucket_mb = 1 means nothing with shard = "));
  EXPECT_EQ(complaint(4, {.shard = Shard::on_demand}, "cuda"),
            "scheme.fsdp.shard = 'on_demand': NCCL has no one-sided reads and writes, so GPUs "
            "cannot serve each other; use 'full_shard', or simulated GPUs");
  EXPECT_EQ(complaint(4, {.shard = Shard::shard_optimizer, .shard_group = 2}), "");
  EXPECT_EQ(complaint(1, {.shard = Shard::hybrid_shard, .shard_group = 4}), "");
}

}  // namespace
}  // namespace ringside
