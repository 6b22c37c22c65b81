// ddp and fsdp: the bits of their results, and whether bytes, memory and time are what the formulas
// say.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <tuple>

#include "core/base/error.h"
#include "peer/fsdp/fsdp.h"
#include "peer/schemes/ddp.h"
#include "tests/peer/training.h"

namespace ringside {
namespace {

using namespace testing;
using peer::DdpOptions;
using peer::FsdpOptions;

constexpr double one_kb = 0.001;  // MB; buckets then hold one unit or two

class Schemes : public ::testing::TestWithParam<std::tuple<int, std::int64_t>> {
 protected:
  Training training() const {
    return {.world = std::get<0>(GetParam()), .micro_batches = std::get<1>(GetParam())};
  }
};
INSTANTIATE_TEST_SUITE_P(WorldsAndMicroBatches, Schemes,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4),
                                            ::testing::Values(1, 3)));

TEST_P(Schemes, DdpEndsWithTheBitsOfTheSequentialSum) {
  const Training training = this->training();
  const auto expected = expected_parameters(training, Order::micro_batches_first);
  for (const double bucket_mb : {one_kb, 0.002, 25.0})
    run_ranks(training.world, [&](const Rank& r) {
      Scene s(r, training);
      const auto scheme = peer::make_ddp(s.context, {.bucket_mb = bucket_mb});
      scheme->attach(s.model);
      train(training, s.context, s.model, *scheme);
      EXPECT_TRUE(same_bits(parameters_of(*scheme), expected)) << "rank " << r.rank;
    });
}

TEST_P(Schemes, DdpSendsTheMinimumAndHoldsEverything) {
  const Training training = this->training();
  std::atomic<std::int64_t> sent{0};
  std::int64_t count = 0;
  run_ranks(training.world, [&](const Rank& r) {
    Scene s(r, training);
    const auto scheme = peer::make_ddp(s.context, {.bucket_mb = one_kb});
    scheme->attach(s.model);
    train(training, s.context, s.model, *scheme);
    sent += scheme->traffic().sent;
    const std::int64_t bytes = 4 * s.model.parameter_count();
    std::int64_t largest = 0;
    for (const auto& unit : s.model.units) largest = std::max(largest, 4 * unit->layout().count());
    const MemoryUse use = r.device.ledger().current();
    EXPECT_EQ(use[MemoryKind::parameter], bytes);
    EXPECT_EQ(use[MemoryKind::gradient], bytes + (training.micro_batches > 1 ? largest : 0));
    EXPECT_EQ(use[MemoryKind::optimizer], 2 * bytes);
    EXPECT_EQ(use[MemoryKind::communication], 0);
    if (r.rank == 0) count = s.model.parameter_count();
  });
  const StepShape shape{.world = training.world, .gradient_bytes = 4 * count};
  EXPECT_DOUBLE_EQ(
      static_cast<double>(sent.load()),
      static_cast<double>(training.steps * training.world) * peer::ddp_minimum_bytes(shape));
}

TEST(SchemesOfPeers, EvaluationLeavesParametersAndMemoryAsTheyWere) {
  const Training training{.world = 3};
  const auto expected = expected_parameters(training, Order::ranks_first);
  run_ranks(3, [&](const Rank& r) {
    Scene s(r, training);
    const auto scheme = peer::make_fsdp(s.context, {});
    scheme->attach(s.model);
    const auto evaluate = [&] {
      const Pass pass = evaluation;
      const Batch batch = training.batch(r.device, 100, r.rank);
      MicroBatch own(s.model);
      Tensor x = batch.inputs;
      for (std::size_t u = 0; u < s.model.units.size(); ++u) {
        scheme->before_forward(u, pass);
        x = s.model.units[u]->forward(x, pass, own.saved[u]);
        scheme->after_forward(u, pass);
      }
      const Loss loss = scheme->loss(x, batch, training.terms(), pass);
      EXPECT_FALSE(loss.gradient);
      EXPECT_EQ(r.device.ledger().current()[MemoryKind::communication], 0);
      double sum[] = {value_of(r.device, loss).loss};
      scheme->sum(sum);
      return sum[0];
    };
    const double before = evaluate();
    train(training, s.context, s.model, *scheme);
    EXPECT_LT(0, before);
    EXPECT_NE(evaluate(), before);
    EXPECT_EQ(evaluate(), evaluate());
    EXPECT_TRUE(same_bits(parameters_of(*scheme), expected)) << "rank " << r.rank;
  });
}

TEST(SchemesOfPeers, SumAddsDoublesInRankOrder) {
  const double values[] = {1e17, 1.0, -1e17, 3.0};
  for (int world = 1; world <= 4; ++world)
    run_ranks(world, [&](const Rank& r) {
      const Training training{.world = world};
      Scene s(r, training);
      const auto ddp = peer::make_ddp(s.context, {});
      const auto fsdp = peer::make_fsdp(s.context, {});
      double expected = values[0];
      for (int k = 1; k < world; ++k) expected += values[k];
      for (SyncScheme* scheme : {ddp.get(), fsdp.get()}) {
        double own[] = {values[r.rank], 0.5};
        scheme->sum(own);
        EXPECT_EQ(own[0], expected);
        EXPECT_EQ(own[1], 0.5 * world);
      }
    });
}

TEST(SchemesOfPeers, DdpLaunchesABucketBeforeBackwardIsOver) {
  const Training training{.world = 2, .steps = 1};
  run_ranks(2, [&](const Rank& r) {
    Scene s(r, training);
    const auto scheme = peer::make_ddp(s.context, {.bucket_mb = one_kb});
    scheme->attach(s.model);
    std::vector<double> hooks;
    train(training, s.context, s.model, *scheme, [&] { hooks.push_back(r.device.clock().now()); });
    double first_launch = 0;
    int buckets = 0, waits = 0;
    for (const auto& slice : s.timeline.slices(0)) {
      if (slice.activity == "communication" && buckets++ == 0) first_launch = slice.begin_s;
      if (slice.activity == "exposed") ++waits;
    }
    EXPECT_GT(buckets, 1);
    EXPECT_EQ(buckets, waits);
    EXPECT_LT(first_launch, hooks[hooks.size() - 3]);  // before unit 0's backward began
    const StepTime time = s.timeline.step_times().at(0);
    const auto of = [&](Activity a) { return time.by_activity[static_cast<std::size_t>(a)]; };
    EXPECT_GT(of(Activity::communication), 0);
    EXPECT_GT(of(Activity::optimizer), 0);
    EXPECT_LE(of(Activity::communication), time.total);
  });
}

}  // namespace
}  // namespace ringside
