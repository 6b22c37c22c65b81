// The parts of which peer schemes are built: buckets whose communication is under way, and shards
// of units.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "peer/kept.h"
#include "peer/reducer.h"
#include "tests/peer/training.h"

namespace ringside::peer {
namespace {

using testing::Training;

/// Communication that ends as soon as somebody waits for it. Counts the waits.
class Noted : public Work {
 public:
  explicit Noted(int& waits, Mark mark) : waits_(waits), mark_(mark) {}
  void wait() override { ++waits_; }
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
  Reducer reducer(*device_, timeline_, make_buckets(model_, DType::f32, 1e9), gradients,
                  {"sum", [&](const Tensor& bucket) {
                     EXPECT_EQ(bucket.count(), count);
                     ++begun;
                     return std::make_unique<Noted>(waits, device_->mark());
                   }});
  reducer.add_up_in(total);
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

TEST_F(Parts, ShardsOfAllRanksAreTheModelAndZeros) {
  constexpr int ranks = 4;
  const Training training{.world = ranks};
  const RunPlan plan = training.plan();
  MemoryStore store;
  std::vector<Tensor> own;
  for (int rank = 0; rank < ranks; ++rank) {
    const RankContext context{plan, rank, *device_, store, timeline_};
    const Shards shards(model_, rank, ranks);
    const Kept kept(context, shards, false, MemoryKind::parameter);
    kept.initialise();
    own.push_back(kept.values());
    const Kept whole(context, shards, true, MemoryKind::parameter);
    whole.initialise();
    const auto packed = whole.own_range().span<float>();
    EXPECT_TRUE(std::ranges::equal(packed, kept.values().span<float>())) << "the same shards";
  }
  const Shards shards(model_, 0, ranks);
  EXPECT_EQ(shards.whole_count(), ranks * shards.own_count());
  for (std::size_t u = 0; u < shards.units(); ++u) {
    const std::int64_t count = model_.units[u]->layout().count();
    EXPECT_GE(shards.padded_count(u), count);
    EXPECT_LT(shards.padded_count(u), count + ranks);
    const Tensor expected = floats(count, 0);
    initialise(*model_.units[u], model_.first_parameter(u),
               static_cast<std::uint64_t>(plan.train.seed), 0, expected);
    std::vector<float> whole;
    for (const Tensor& range : own)
      for (const float value : shards.of_own(range, u).span<float>()) whole.push_back(value);
    ASSERT_EQ(static_cast<std::int64_t>(whole.size()), shards.padded_count(u));
    for (std::int64_t i = 0; i < shards.padded_count(u); ++i)
      ASSERT_EQ(whole[static_cast<std::size_t>(i)], i < count ? expected.data<float>()[i] : 0);
  }
}

}  // namespace
}  // namespace ringside::peer
