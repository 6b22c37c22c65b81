// fsdp on demand: the waits of ranks for each other. Bits, bytes and memory are tested in
// sharding_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "core/base/error.h"
#include "peer/fsdp/fsdp.h"
#include "tests/peer/sim_ranks.h"
#include "tests/peer/training.h"

namespace ringside {
namespace {

using namespace testing;
using peer::FsdpOptions;
using peer::Shard;
using ::testing::HasSubstr;

enum class Way { forward, backward };
/// Called when a unit's parameters are there, before it is computed.
using During = std::function<void(Way, std::int64_t micro_batch, std::size_t unit)>;

/// One step, with the hooks as the trainer calls them.
void step(const Training& training, Scene& s, SyncScheme& scheme, const During& during) {
  s.timeline.begin_step();
  for (std::int64_t m = 0; m < training.micro_batches; ++m) {
    const Pass pass{.micro_batch = m, .micro_batches = training.micro_batches};
    const Batch batch =
        training.batch(s.context.device, 0, s.context.rank * training.micro_batches + m);
    MicroBatch own(s.model);
    Tensor x = batch.inputs;
    for (std::size_t u = 0; u < s.model.units.size(); ++u) {
      scheme.before_forward(u, pass);
      during(Way::forward, m, u);
      x = s.model.units[u]->forward(x, pass, own.saved[u]);
      scheme.after_forward(u, pass);
    }
    x = scheme.loss(x, batch, training.terms(), pass).gradient;
    for (std::size_t u = s.model.units.size(); u-- > 0;) {
      scheme.before_backward(u, pass);
      during(Way::backward, m, u);
      x = s.model.units[u]->backward(x, own.saved[u]);
      scheme.after_backward(u, pass);
    }
  }
  EXPECT_TRUE(scheme.step({}));
  s.timeline.end_step();
}

/// Communication takes next to no time, so that only waiting counts.
Simulated fast_links() {
  Simulated out = rings_as_messages(4);
  out.cluster.peer = out.cluster.pcie = {.gbs = 1e6, .latency_us = 0, .step_us = 0};
  out.cluster.collective.base_us = 0;
  return out;
}

TEST(OnDemand, ASlowUnitOfOneRankDelaysNoOther) {
  const Training training{.world = 3, .steps = 1};
  for (const Shard shard : {Shard::on_demand, Shard::full_shard})
    run_simulated(fast_links(), training.world, [&](const Rank& r) {
      Scene s(r, training);
      const auto scheme = peer::make_fsdp(s.context, {.shard = shard, .prefetch = 0});
      scheme->attach(s.model);
      const double begin = world_of(r).now();
      step(training, s, *scheme, [&](Way way, std::int64_t, std::size_t unit) {
        if (way == Way::backward) return;
        const double now = world_of(r).now() - begin;
        if (unit == 2 && r.rank != 1) {
          EXPECT_EQ(now >= 1, shard == Shard::full_shard) << now;
        }
        if (unit == 1 && r.rank == 1) world_of(r).sleep(1);
      });
      EXPECT_GE(world_of(r).now() - begin, 1) << "all wait where the step ends";
    });
}

/// With c(r, m, u) the time that rank r computes unit u in micro-batch m, collectives make a step
/// take the sum over m and u of the largest c of all ranks; on demand it is the largest over ranks
/// of their own sum.
TEST(OnDemand, AStepTakesAsLongAsTheSlowestRankAlone) {
  const Training training{.world = 4, .micro_batches = 3, .steps = 1};
  const auto seconds = [](int rank, std::int64_t m, std::size_t unit, Way way) {
    const auto u = static_cast<std::int64_t>(unit);
    return (way == Way::backward ? 0.2 : 0.1) * static_cast<double>(1 + (rank * 7 + m * 3 + u) % 4);
  };
  for (const Shard shard : {Shard::on_demand, Shard::full_shard}) {
    double taken = 0, together = 0;
    std::array<double, 4> alone{};
    run_simulated(fast_links(), training.world, [&](const Rank& r) {
      Scene s(r, training);
      const auto scheme = peer::make_fsdp(s.context, {.shard = shard, .prefetch = 0});
      scheme->attach(s.model);
      const double begin = world_of(r).now();
      step(training, s, *scheme, [&](Way way, std::int64_t m, std::size_t unit) {
        world_of(r).sleep(seconds(r.rank, m, unit, way));
        double longest = 0;
        for (int other = 0; other < r.size; ++other)
          longest = std::max(longest, seconds(other, m, unit, way));
        alone[static_cast<std::size_t>(r.rank)] += seconds(r.rank, m, unit, way);
        if (r.rank == 0) together += longest;
      });
      taken = std::max(taken, world_of(r).now() - begin);
    });
    const double expected =
        shard == Shard::on_demand ? *std::max_element(alone.begin(), alone.end()) : together;
    EXPECT_NEAR(taken, expected, 0.01 * expected) << name_of(shard);
    EXPECT_LT(*std::max_element(alone.begin(), alone.end()), 0.8 * together) << "they differ";
  }
}

TEST(OnDemand, ARankThatIsLateOrEndsIsNamedWhereTheStepEnds) {
  const Training training{.world = 3, .steps = 1};
  const auto body = [&](const Rank& r, const std::function<void()>& instead) {
    Scene s(r, training);
    const auto scheme = peer::make_fsdp(s.context, {.shard = Shard::on_demand});
    scheme->attach(s.model);
    if (r.rank == 2) return instead();
    step(training, s, *scheme, [](Way, std::int64_t, std::size_t) {});
  };
  const auto ended =
      errors_of_ranks(3, 60, [&](const Rank& r) { body(r, [&] { throw Error("it ended"); }); });
  EXPECT_EQ(ended[2], "it ended");
  Simulated simulated = rings_as_messages(4);
  simulated.options.timeout_s = 0.5;
  const auto late = errors_of_simulated(
      simulated, 3, [&](const Rank& r) { body(r, [&] { world_of(r).sleep(10); }); });
  for (const std::size_t other : {0u, 1u}) {
    EXPECT_THAT(ended[other], HasSubstr("rank 2 of 3 ended before operation"));
    EXPECT_THAT(late[other], HasSubstr("rank 2 of 3 did not begin operation"));
    EXPECT_THAT(late[other], HasSubstr("(barrier) within 0.5 s"));
  }
}

}  // namespace
}  // namespace ringside
