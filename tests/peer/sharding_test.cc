// fsdp at every degree of sharding: the bits of its results, and bytes and memory against the
// formulas of the ZeRO paper (Rajbhandari et al., SC'20) and of Zhao et al. (VLDB 2023).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>

#include "peer/fsdp/fsdp.h"
#include "tests/peer/sim_ranks.h"
#include "tests/peer/training.h"

namespace ringside::peer {
namespace {

using namespace testing;

struct Case {
  int world;
  Shard shard;
  std::int64_t shard_group = 0;
  std::int64_t micro_batches = 1;
  Reduce reduce = Reduce::every;
  std::int64_t prefetch = 1;
  bool reshard = true;     // after forward
  std::int64_t least = 0;  // parameters of an FSDP unit
  bool in_place = true;    // the shards of other ranks are read
  bool simulated = false;  // on cores of a simulated CPU, which run until they wait

  FsdpOptions options() const {
    return {.shard = shard,
            .shard_group = shard_group,
            .reshard_after_forward = reshard,
            .prefetch = prefetch,
            .min_unit_parameters = least,
            .read_in_place = in_place};
  }
  Training training() const { return {.world = world, .micro_batches = micro_batches}; }
  RunPlan plan() const {
    RunPlan out = training().plan();
    out.scheme = "fsdp";
    out.train.reduce = reduce;
    return out;
  }

  // The meaning of the degree, written independently of the code under test.
  int group() const {
    if (shard == Shard::no_shard) return 1;
    return shard_group == 0 ? world : static_cast<int>(shard_group);
  }
  int groups() const { return world / group(); }
  bool shards_parameters() const {
    return group() > 1 && (shard == Shard::full_shard || shard == Shard::hybrid_shard ||
                           shard == Shard::on_demand);
  }
  bool on_demand() const { return group() > 1 && shard == Shard::on_demand; }
  bool shards_gradients() const {
    return shards_parameters() ||
           (group() > 1 && (shard == Shard::shard_grad_op || shard == Shard::hybrid_shard_zero2));
  }
  /// Whether a rank adds up its micro-batches before other ranks see them.
  bool adds_up_first() const { return micro_batches > 1 && (reduce == Reduce::last || world == 1); }
};

std::vector<Case> all_cases() {
  std::vector<Case> out;
  const auto add = [&](Case one) {
    for (const bool in_place : {true, false}) {
      if (!in_place && !one.shards_parameters()) continue;
      one.in_place = in_place;
      one.micro_batches = 1;
      one.reduce = Reduce::every;
      out.push_back(one);
      one.micro_batches = 3;
      out.push_back(one);
      one.reduce = Reduce::last;
      out.push_back(one);
    }
  };
  for (int world = 1; world <= 4; ++world)
    for (const Shard shard : {Shard::no_shard, Shard::shard_optimizer, Shard::shard_grad_op,
                              Shard::full_shard, Shard::on_demand})
      add({world, shard});
  for (const Shard shard : {Shard::shard_optimizer, Shard::hybrid_shard, Shard::hybrid_shard_zero2,
                            Shard::hybrid_shard_zero1})
    add({4, shard, 2});
  add({3, Shard::hybrid_shard, 1});
  for (const std::int64_t prefetch : {0, 2, 9})
    add({.world = 3, .shard = Shard::full_shard, .prefetch = prefetch});
  add({.world = 2, .shard = Shard::full_shard, .prefetch = 0, .reshard = false});
  add({.world = 3, .shard = Shard::shard_grad_op, .least = 100});
  add({.world = 3, .shard = Shard::full_shard, .least = 100});
  add({.world = 2, .shard = Shard::full_shard, .least = 1'000'000});
  add({.world = 3, .shard = Shard::on_demand, .prefetch = 0});
  add({.world = 2, .shard = Shard::on_demand, .reshard = false, .least = 100});
  add({.world = 4, .shard = Shard::hybrid_shard, .shard_group = 2, .least = 100});
  add({.world = 4, .shard = Shard::hybrid_shard, .shard_group = 2, .reshard = false});
  add({.world = 2, .shard = Shard::full_shard, .simulated = true});
  add({.world = 3, .shard = Shard::on_demand, .simulated = true});
  add({.world = 4, .shard = Shard::hybrid_shard, .shard_group = 2, .simulated = true});
  return out;
}

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  std::string name = fmt::format("{}_world_{}", name_of(c.shard), c.world);
  if (c.shard_group > 0) name += fmt::format("_groups_of_{}", c.shard_group);
  if (c.prefetch != 1) name += fmt::format("_prefetch_{}", c.prefetch);
  if (c.least > 0) name += fmt::format("_fsdp_units_of_{}", c.least);
  if (!c.reshard) name += "_gathered_until_backward";
  if (!c.in_place) name += "_copied";
  if (c.simulated) name += "_simulated";
  if (c.micro_batches > 1) name += fmt::format("_{}", name_of(c.reduce));
  return name;
}

/// Bytes of each FSDP unit with its padding.
std::vector<std::int64_t> padded_bytes(const Model& model, const Case& c) {
  std::vector<std::int64_t> out;
  std::int64_t count = 0;
  for (const auto& unit : model.units) {
    count += unit->layout().count();
    if (count < c.least && unit != model.units.back()) continue;
    out.push_back((count + c.group() - 1) / c.group() * c.group() * 4);
    count = 0;
  }
  return out;
}

std::int64_t sum(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

/// Bytes of the places that a rank keeps for the gradients of all other ranks.
std::int64_t places(const std::vector<std::int64_t>& units, const Case& c) {
  return c.on_demand() ? sum(units) / c.world * (c.world - 1) : 0;
}

class Sharding : public ::testing::TestWithParam<Case> {
 protected:
  /// Trains, and calls `look` on each rank after every hook and `end` after the last step.
  void run(const std::function<void(const Rank&)>& look,
           const std::function<void(Scene&, SyncScheme&)>& end) const {
    const Case& c = GetParam();
    const auto body = [&](const Rank& r) {
      Scene s(r, c.training());
      s.plan = c.plan();
      const auto scheme = make_fsdp(s.context, c.options());
      scheme->attach(s.model);
      train(c.training(), s.context, s.model, *scheme, [&] { look(r); });
      scheme->drain();
      end(s, *scheme);
    };
    if (c.simulated)
      run_simulated(one_pass(), c.world, body);
    else
      run_ranks(c.world, body);
  }
};
INSTANTIATE_TEST_SUITE_P(Degrees, Sharding, ::testing::ValuesIn(all_cases()), name_of_case);

TEST_P(Sharding, EndsWithTheBitsOfTheSequentialSum) {
  const Case& c = GetParam();
  const bool ranks_first = c.micro_batches > 1 && !c.adds_up_first() && !c.on_demand();
  const bool nested = c.group() > 1 && c.groups() > 1;
  // Several groups add up within each group first: with one micro-batch, that is the order in which
  // as many ranks as there are groups add up as many micro-batches as a group has ranks.
  Training order = c.training();
  if (nested && c.micro_batches == 1) order = {.world = c.groups(), .micro_batches = c.group()};
  const auto expected =
      expected_parameters(order, ranks_first ? Order::ranks_first : Order::micro_batches_first);
  const bool exact = !nested || c.micro_batches == 1;
  run([](const Rank&) {},
      [&](Scene&, SyncScheme& scheme) {
        const auto values = parameters_of(scheme);
        ASSERT_EQ(values.size(), expected.size());
        for (std::size_t i = 0; i < values.size(); ++i)
          ASSERT_NEAR(values[i], expected[i], exact ? 0 : 1e-5) << i;
      });
}

TEST_P(Sharding, HoldsWhatTheFormulasSay) {
  const Case& c = GetParam();
  std::vector<std::int64_t> most(static_cast<std::size_t>(c.world));
  run(
      [&](const Rank& r) {
        std::int64_t& of_rank = most[static_cast<std::size_t>(r.rank)];
        of_rank = std::max(of_rank, r.device.ledger().current()[MemoryKind::communication]);
      },
      [&](Scene& s, SyncScheme&) {
        const std::vector<std::int64_t> units = padded_bytes(s.model, c);
        const std::int64_t model = sum(units), shard = model / c.group();
        const MemoryUse use = s.context.device.ledger().current();
        EXPECT_EQ(use[MemoryKind::parameter], c.shards_parameters() ? shard : model);
        EXPECT_EQ(use[MemoryKind::gradient],
                  c.shards_gradients() && !c.adds_up_first() ? shard : model);
        EXPECT_EQ(use[MemoryKind::optimizer], 2 * shard);
        EXPECT_EQ(use[MemoryKind::communication], places(units, c));
      });
  const auto device = make_cpu_device(1);
  const auto units = padded_bytes(make_mlp(c.training().config, *device), c);
  const auto ahead = static_cast<std::size_t>(c.prefetch);
  /// Of units [begin, end).
  const auto gathered = [&](std::size_t begin, std::size_t end) {
    if (!c.shards_parameters() || c.in_place) return std::int64_t{0};
    end = std::min(end, units.size());
    return sum({units.begin() + static_cast<std::ptrdiff_t>(begin),
                units.begin() + static_cast<std::ptrdiff_t>(end)});
  };
  /// Of the gradients of unit u and of the unit whose backward ran before.
  const auto on_their_way = [&](std::size_t u) {
    if (c.adds_up_first() || (!c.shards_gradients() && c.micro_batches == 1))
      return std::int64_t{0};
    if (u + 1 < units.size()) return units[u] + units[u + 1];
    return units[u] + (c.micro_batches > 1 ? units[0] : 0);
  };
  // The last gradients of a micro-batch may still be on their way in the next one's forward.
  const std::int64_t before = c.micro_batches > 1 ? on_their_way(0) : 0;
  std::int64_t expected = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const std::size_t lowest = !c.reshard || u < ahead ? 0 : u - ahead;
    expected = std::max({expected, gathered(c.reshard ? u : 0, u + 1 + ahead) + before,
                         gathered(lowest, u + 1) + on_their_way(u)});
  }
  for (const std::int64_t of_rank : most) EXPECT_EQ(of_rank, expected + places(units, c));
}

TEST_P(Sharding, SendsTheMinimum) {
  const Case& c = GetParam();
  std::atomic<std::int64_t> sent{0};
  std::int64_t parameter_bytes = 0;
  run([](const Rank&) {},
      [&](Scene& s, SyncScheme& scheme) {
        sent += scheme.traffic().sent;
        EXPECT_TRUE(c.groups() > 1 || scheme.traffic().received == scheme.traffic().sent);
        if (s.context.rank == 0) parameter_bytes = sum(padded_bytes(s.model, c));
      });
  const double bytes = static_cast<double>(parameter_bytes);
  const double reductions = c.adds_up_first() ? 1 : static_cast<double>(c.micro_batches);
  const double gathers =
      c.shards_parameters() ? (c.reshard ? 2 : 1) * static_cast<double>(c.micro_batches) : 1;
  const double g = c.group(), w = c.world;
  const double expected =
      (g - 1) / g * bytes * (gathers + reductions) + reductions * 2 * bytes * (w - g) / (g * w);
  const double steps = static_cast<double>(c.training().steps);
  EXPECT_DOUBLE_EQ(static_cast<double>(sent.load()), steps * w * expected);
  const StepShape shape{.world = c.world,
                        .micro_batches = c.micro_batches,
                        .reductions = c.adds_up_first() ? 1 : c.micro_batches,
                        .parameter_bytes = parameter_bytes,
                        .gradient_bytes = parameter_bytes};
  EXPECT_DOUBLE_EQ(expected, fsdp_minimum_bytes(shape, c.options()));
}

}  // namespace
}  // namespace ringside::peer
