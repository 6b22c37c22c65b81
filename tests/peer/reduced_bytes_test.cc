// Bytes of gradients that are reduced in another dtype than backward writes, or in buckets: what
// every kind of memory holds, and what is sent, to the byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "peer/fsdp/fsdp.h"
#include "peer/fsdp/gradient_shards.h"
#include "peer/schemes/ddp.h"
#include "tests/peer/training.h"

namespace ringside::peer {
namespace {

using namespace testing;

constexpr int world = 3;

struct Dtypes {
  Precision precision;
  ReducePrecision reduce;
  std::int64_t parameter, reduced, sum, master;  // bytes of an element
};
constexpr Dtypes wide{Precision::bf16, ReducePrecision::fp32, 2, 4, 4, 4};
constexpr Dtypes narrow{Precision::fp32, ReducePrecision::bf16, 4, 2, 4, 0};
constexpr Dtypes same{Precision::fp32, ReducePrecision::same, 4, 4, 4, 0};

struct Seen {
  MemoryUse after;                 // the last step
  std::int64_t communication = 0;  // the most after any hook
};

/// The memory of rank 0, and the mean bytes that each rank sends in a step.
struct Held : Seen {
  double sent = 0;
};

using Make = std::function<std::unique_ptr<SyncScheme>(const RankContext&)>;

Held train_with(const Dtypes& dtypes, const Make& make) {
  const Training training{.world = world};
  Held out;
  std::atomic<std::int64_t> sent{0};
  run_ranks(world, [&](const Rank& r) {
    Scene s(r, training);
    s.plan.scheme = "fsdp";
    s.plan.train.precision = dtypes.precision;
    s.plan.train.reduce_precision = dtypes.reduce;
    const auto scheme = make(s.context);
    scheme->attach(s.model);
    std::int64_t most = 0;
    const Ledger& ledger = r.device.ledger();
    train(training, s.context, s.model, *scheme,
          [&] { most = std::max(most, ledger.current()[MemoryKind::communication]); });
    scheme->drain();
    sent += scheme->traffic().sent;
    if (r.rank == 0) static_cast<Seen&>(out) = {ledger.current(), most};
  });
  out.sent = static_cast<double>(sent) / static_cast<double>(world * training.steps);
  return out;
}

/// The number of elements of every unit, with padding for `ranks` shards.
std::vector<std::int64_t> padded_units(int ranks) {
  const auto device = make_cpu_device(1);
  const Model model = make_mlp(Training{}.config, *device);
  std::vector<std::int64_t> out;
  for (const auto& unit : model.units)
    out.push_back((unit->layout().count() + ranks - 1) / ranks * ranks);
  return out;
}

std::int64_t added_up(const std::vector<std::int64_t>& values) {
  std::int64_t out = 0;
  for (const std::int64_t value : values) out += value;
  return out;
}

TEST(ReducedBytes, OfDdpAreASecondGradientOrCopiesOfItsBuckets) {
  const std::int64_t model = added_up(padded_units(1));
  for (const Dtypes& dtypes : {wide, narrow, same}) {
    const Held held = train_with(
        dtypes, [](const RankContext& context) { return make_ddp(context, {.bucket_mb = 0.001}); });
    EXPECT_EQ(held.after[MemoryKind::parameter], dtypes.parameter * model);
    EXPECT_EQ(held.after[MemoryKind::gradient],
              model * (dtypes.parameter + (dtypes.sum > dtypes.parameter ? dtypes.sum : 0)));
    EXPECT_EQ(held.after[MemoryKind::optimizer], (8 + dtypes.master) * model);
    EXPECT_EQ(held.after[MemoryKind::communication], 0);
    const bool copies = dtypes.reduced < dtypes.parameter;
    EXPECT_EQ(held.communication, copies ? dtypes.reduced * model : 0);
    const StepShape shape{.world = world, .gradient_bytes = dtypes.reduced * model};
    EXPECT_DOUBLE_EQ(held.sent, ddp_minimum_bytes(shape));
  }
}

class OfDegree : public ::testing::TestWithParam<Shard> {
 protected:
  static Held train_in(const Dtypes& dtypes, double bucket_mb) {
    return train_with(dtypes, [&](const RankContext& context) {
      return make_fsdp(context, {.shard = GetParam(),
                                 .prefetch = 0,
                                 .bucket_mb = bucket_mb,
                                 .read_in_place = GetParam() != Shard::full_shard});
    });
  }
  static bool whole_gradients() { return GetParam() == Shard::shard_optimizer; }
  static bool whole_parameters() { return GetParam() != Shard::full_shard; }

  static void expect_the_formulas(const Dtypes& dtypes, const Held& held) {
    const std::int64_t model = added_up(padded_units(world)), shard = model / world;
    EXPECT_EQ(held.after[MemoryKind::parameter],
              dtypes.parameter * (whole_parameters() ? model : shard));
    const bool apart = dtypes.sum != dtypes.parameter;
    EXPECT_EQ(held.after[MemoryKind::gradient], !whole_gradients() ? dtypes.sum * shard
                                                : apart
                                                    ? dtypes.parameter * model + dtypes.sum * shard
                                                    : dtypes.sum * model);
    EXPECT_EQ(held.after[MemoryKind::optimizer], (8 + dtypes.master) * shard);
    EXPECT_EQ(held.after[MemoryKind::communication], 0);
    const StepShape shape{.world = world,
                          .parameter_bytes = dtypes.parameter * model,
                          .gradient_bytes = dtypes.reduced * model};
    EXPECT_DOUBLE_EQ(held.sent, fsdp_minimum_bytes(shape, {.shard = GetParam()}));
  }
};
INSTANTIATE_TEST_SUITE_P(ReducedBytes, OfDegree,
                         ::testing::Values(Shard::shard_optimizer, Shard::shard_grad_op,
                                           Shard::full_shard),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(OfDegree, AreThoseOfTwoUnitsOnTheirWay) {
  const std::vector<std::int64_t> units = padded_units(world);
  for (const Dtypes& dtypes : {wide, narrow, same}) {
    const Held held = train_in(dtypes, 0);
    expect_the_formulas(dtypes, held);
    const bool copies = dtypes.reduced != dtypes.parameter;
    std::int64_t expected = 0;
    for (std::size_t u = 0; u < units.size(); ++u) {
      const std::int64_t before = u + 1 < units.size() ? units[u + 1] : 0;
      const std::int64_t gathered = whole_parameters() ? 0 : dtypes.parameter * units[u];
      // After the unit's backward it is no more gathered; its gradient or the copy is on its way.
      const std::int64_t written = whole_gradients() ? 0 : dtypes.parameter * units[u];
      const bool sends_memory = copies || !whole_gradients();
      const std::int64_t sent = sends_memory ? dtypes.reduced : 0;
      expected =
          std::max({expected, gathered + written + sent * before, sent * (units[u] + before)});
    }
    EXPECT_EQ(held.communication, expected);
  }
}

TEST_P(OfDegree, AreOneBucketIfThatHoldsTheModel) {
  const std::vector<std::int64_t> units = padded_units(world);
  const std::int64_t model = added_up(units);
  for (const Dtypes& dtypes : {wide, narrow, same}) {
    const Held held = train_in(dtypes, 1);
    expect_the_formulas(dtypes, held);
    std::int64_t expected = dtypes.reduced * model;  // when backward is over
    for (std::size_t u = 0; u < units.size(); ++u) {
      const std::int64_t gathered = whole_parameters() ? 0 : dtypes.parameter * units[u];
      const std::int64_t written = whole_gradients() ? 0 : dtypes.parameter * units[u];
      const bool begun = u + 1 < units.size();  // the copy is made after the first unit's backward
      expected = std::max(expected, gathered + written + (begun ? dtypes.reduced * model : 0));
    }
    EXPECT_EQ(held.communication, expected);
  }
}

/// All reduce-scatters of a step, by the trace.
TEST(GradientBuckets, AreReducedInOneMessageEach) {
  const Training training{.world = world, .steps = 1};
  run_ranks(world, [&](const Rank& r) {
    for (const double bucket_mb : {0.0, 0.002, 1.0}) {
      Scene s(r, training);
      const GradientBuckets buckets(FsdpUnits(s.model, 0), DType::f32, bucket_mb * 1e6);
      if (bucket_mb == 0.002) {
        EXPECT_GT(buckets.size(), 1u);
        EXPECT_LT(buckets.size(), s.model.units.size());
      }
      const auto scheme = make_fsdp(s.context, {.bucket_mb = bucket_mb});
      scheme->attach(s.model);
      train(training, s.context, s.model, *scheme);
      std::vector<std::string> names;
      for (const auto& slice : s.timeline.slices(0))
        if (slice.activity == "communication" && slice.name.starts_with("reduce-scatter "))
          names.push_back(slice.name);
      ASSERT_EQ(names.size(), buckets.size());
      for (std::size_t b = 0; b < names.size(); ++b)
        EXPECT_EQ(names[b], "reduce-scatter " + buckets[b].name);
    }
  });
}

TEST(GradientBuckets, AreWholeFsdpUnitsFromTheLastToTheFirst) {
  const auto device = make_cpu_device(1);
  const Model model = make_mlp(Training{}.config, *device);
  const FsdpUnits fsdp_units(model, 0);
  for (const double bytes : {0.0, 1.0, 1200.0, 1e9}) {
    const GradientBuckets buckets(fsdp_units, DType::f32, bytes);
    std::size_t end = fsdp_units.size();
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      EXPECT_EQ(buckets[b].last + 1, end) << "no gap";
      end = buckets[b].first;
      double held = 0;
      for (std::size_t i = buckets[b].last + 1; i-- > buckets[b].first;) {
        EXPECT_EQ(buckets.of(i), b);
        EXPECT_TRUE(held < bytes || i == buckets[b].last) << "full before its first fsdp_unit";
        held += 4 * static_cast<double>(fsdp_units[i].count);
      }
      EXPECT_TRUE(held >= bytes || buckets[b].first == 0);
    }
    EXPECT_EQ(end, 0u);
  }
  EXPECT_EQ(GradientBuckets(fsdp_units, DType::f32, 0).size(), fsdp_units.size());
  EXPECT_EQ(GradientBuckets(fsdp_units, DType::f32, 1e9).size(), 1u);
}

}  // namespace
}  // namespace ringside::peer
