// The parts of which peer schemes are built: buckets whose communication is under way, and shards
// of units.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "peer/fsdp/sharded_storage.h"
#include "peer/schemes/reducer.h"
#include "tests/peer/training.h"

namespace ringside::peer {
namespace {

using testing::Training;

/// Communication that ends as soon as it is waited for. Counts the waits.
class Noted : public Work {
 public:
  explicit Noted(int& waits, Mark mark) : waits_(waits), mark_(mark) {}
  void wait() override { ++waits_; }
  bool ready() override { return false; }
  Span span() const override { return {mark_, mark_}; }

 private:
  int& waits_;
  Mark mark_;
};

class Parts : public ::testing::Test {
 protected:
  Tensor floats(std::int64_t count, float value) {
    const Tensor out = device_->tensor({count}, MemoryKind::gradient);
    device_->kernels().fill({.out = out, .value = value});
    return out;
  }

  const std::unique_ptr<Device> device_ = make_cpu_device(1);
  Timeline timeline_{*device_};
  Model model_ = make_mlp(Training{}.config, *device_);
};

TEST_F(Parts, BucketsAreWholeUnitsFromTheLastToTheFirst) {
  const std::int64_t all = model_.parameter_count();
  for (const double bytes : {1.0, 1000.0, 1e9}) {
    std::int64_t end = all;
    for (const Bucket& bucket : make_buckets(model_, DType::f32, bytes)) {
      EXPECT_EQ(bucket.begin, model_.first_parameter(bucket.first_unit));
      EXPECT_EQ(bucket.begin + bucket.count, end) << "no gap";
      EXPECT_TRUE(static_cast<double>(4 * bucket.count) >= bytes || bucket.first_unit == 0);
      end = bucket.begin;
    }
    EXPECT_EQ(end, 0);
  }
  EXPECT_EQ(make_buckets(model_, DType::f32, 1).size(), model_.units.size());
  EXPECT_EQ(make_buckets(model_, DType::f32, 1e9).size(), 1u);
}

TEST_F(Parts, AReducerSendsABucketWhenItsFirstUnitIsDoneAndAddsUpMicroBatches) {
  int begun = 0, waits = 0;
  const std::int64_t count = model_.parameter_count();
  const Tensor gradients = floats(count, 1), total = floats(count, -1);
  Reducer reducer(*device_, timeline_, make_buckets(model_, DType::f32, 1e9), gradients, total,
                  {"sum", DType::f32, [&](std::size_t number, const Tensor& bucket) {
                     EXPECT_EQ(number, 0u);
                     EXPECT_EQ(bucket.count(), count);
                     ++begun;
                     return std::make_unique<Noted>(waits, device_->mark());
                   }});
  timeline_.begin_step();
  for (std::int64_t micro_batch = 0; micro_batch < 3; ++micro_batch) {
    for (std::size_t u = model_.units.size(); u-- > 0;) {
      reducer.finalize_of_unit(u);
      EXPECT_EQ(waits, micro_batch);
      reducer.add(u, micro_batch);
      EXPECT_EQ(begun, micro_batch + (u == 0 ? 1 : 0));
    }
  }
  reducer.finalize_all();
  reducer.finalize_all();
  timeline_.end_step();
  EXPECT_EQ(waits, 3) << "once each";
  for (const float value : total.span<float>()) ASSERT_EQ(value, 3);
}

TEST_F(Parts, FsdpUnitsAreNeighbouringUnitsWithEnoughParameters) {
  const FsdpUnits single(model_, 0), all(model_, model_.parameter_count());
  EXPECT_EQ(single.size(), model_.units.size());
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].count, model_.parameter_count());
  EXPECT_EQ(all[0].name, model_.units.front()->name() + " to " + model_.units.back()->name());
  const std::int64_t least = model_.units[0]->layout().count() + 1;
  const FsdpUnits some(model_, least);
  EXPECT_EQ(some[0].last, 1u) << "the first unit alone is too small";
  const Tensor whole = floats(model_.parameter_count(), 0);
  std::int64_t end = 0;
  for (std::size_t b = 0; b < some.size(); ++b) {
    EXPECT_TRUE(some[b].count >= least || b + 1 == some.size());
    for (std::size_t u = some[b].first; u <= some[b].last; ++u) {
      EXPECT_EQ(some.of(u), b);
      EXPECT_EQ(model_.first_parameter(u), end) << "no gap";
      const Tensor part = some.part(whole.range(some[b].begin, some[b].count), u);
      EXPECT_EQ(part.data<float>(), whole.data<float>() + end);
      EXPECT_EQ(part.count(), model_.units[u]->layout().count());
      end += part.count();
    }
  }
  EXPECT_EQ(end, model_.parameter_count());
}

class PartsInFsdpUnits : public Parts, public ::testing::WithParamInterface<std::int64_t> {};

TEST_P(PartsInFsdpUnits, ShardsOfAllRanksAreTheModelAndZeros) {
  constexpr int ranks = 4;
  const Training training{.world = ranks};
  const RunPlan plan = training.plan();
  const FsdpUnits fsdp_units(model_, GetParam());
  MemoryStore store;
  std::vector<Tensor> own;
  for (int rank = 0; rank < ranks; ++rank) {
    const RankContext context{plan, rank, *device_, store, timeline_};
    const Shards shards(fsdp_units, rank, ranks);
    const ShardedStorage kept(context, shards, false, MemoryKind::parameter, DType::f32);
    kept.initialise();
    own.push_back(kept.values());
    const ShardedStorage whole(context, shards, true, MemoryKind::parameter, DType::f32);
    whole.initialise();
    const auto packed = whole.own_range(true).span<float>();
    EXPECT_TRUE(std::ranges::equal(packed, kept.values().span<float>())) << "the same shards";
  }
  const Tensor model = floats(model_.parameter_count(), 0);
  for (std::size_t u = 0; u < model_.units.size(); ++u)
    initialise(*model_.units[u], model_.first_parameter(u),
               static_cast<std::uint64_t>(plan.train.seed), 0,
               model.range(model_.first_parameter(u), model_.units[u]->layout().count()));
  const Shards shards(fsdp_units, 0, ranks);
  EXPECT_EQ(shards.whole_count(), ranks * shards.own_count());
  for (std::size_t b = 0; b < shards.size(); ++b) {
    const std::int64_t count = fsdp_units[b].count;
    EXPECT_GE(shards.padded_count(b), count);
    EXPECT_LT(shards.padded_count(b), count + ranks);
    std::vector<float> whole;
    for (const Tensor& range : own)
      for (const float value : shards.of_own(range, b).span<float>()) whole.push_back(value);
    ASSERT_EQ(static_cast<std::int64_t>(whole.size()), shards.padded_count(b));
    const float* expected = model.data<float>() + fsdp_units[b].begin;
    for (std::int64_t i = 0; i < shards.padded_count(b); ++i)
      ASSERT_EQ(whole[static_cast<std::size_t>(i)], i < count ? expected[i] : 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Least, PartsInFsdpUnits, ::testing::Values(0, 100, 1'000'000));

}  // namespace
}  // namespace ringside::peer
