// The algorithms of collectives: exact sums through shared memory and in simulated clusters, the
// order of these sums, and the steps, bytes and seconds that they cost.
#include "peer/comm/algorithms/algorithms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>

#include "peer/comm/algorithms/choice.h"
#include "peer/comm/algorithms/schedule.h"
#include "tests/peer/sim_ranks.h"

namespace ringside::testing {
namespace {

using peer::AlgorithmRow;
using peer::Collective;
using peer::Round;

using peer::Transfer;

const std::vector<int> worlds = {2, 3, 4, 5, 7, 8};

/// Values whose sum depends on the order of the additions.
float uneven(int rank, std::int64_t i) {
  const float large = i % 2 == 0 ? 1e8F : 3e7F;
  return rank % 3 == 0 ? large : rank % 3 == 1 ? 1.0F + static_cast<float>(i) : -large;
}

/// Adds up uneven() of all ranks as the row says; plain loops over single elements.
std::vector<float> in_order(const AlgorithmRow& row, Collective::Kind kind, std::int64_t count,
                            const std::vector<int>& hosts) {
  std::vector<float> out;
  for (const Sum& sum : row.sums(kind, count, hosts)) {
    EXPECT_EQ(sum.begin, static_cast<std::int64_t>(out.size()));
    for (std::int64_t i = sum.begin; i < sum.begin + sum.count; ++i) {
      std::vector<float> values;
      for (int r = 0; r < static_cast<int>(hosts.size()); ++r) values.push_back(uneven(r, i));
      std::vector<bool> used(hosts.size());
      int result = 0;
      for (const Addition& addition : sum.additions) {
        const auto from = static_cast<std::size_t>(addition.from);
        EXPECT_FALSE(used[from]) << "rank " << addition.from << " is added twice";
        used[from] = true;
        values[static_cast<std::size_t>(addition.into)] += values[from];
        result = addition.into;
      }
      EXPECT_EQ(std::count(used.begin(), used.end(), true), std::ssize(hosts) - 1);
      out.push_back(values[static_cast<std::size_t>(result)]);
    }
  }
  EXPECT_EQ(static_cast<std::int64_t>(out.size()), count);
  return out;
}

class AlgorithmSums : public ::testing::TestWithParam<std::tuple<Algorithm, int>> {};
INSTANTIATE_TEST_SUITE_P(
    Algorithms, AlgorithmSums,
    ::testing::Combine(::testing::Values(Algorithm::ring, Algorithm::tree,
                                         Algorithm::recursive_doubling, Algorithm::halving_doubling,
                                         Algorithm::hierarchical, Algorithm::naive),
                       ::testing::ValuesIn(worlds)),
    [](const auto& info) {
      return name_in_tests(name_of(std::get<0>(info.param))) + "_" +
             std::to_string(std::get<1>(info.param));
    });

void expect_sums_in_order(const AlgorithmRow& row, const std::vector<int>& hosts, const Rank& r) {
  const std::int64_t n = 777;
  const auto values = [&](std::int64_t i) { return uneven(r.rank, i); };
  const Tensor whole = r.floats(n, values);
  r.comm.all_reduce(whole)->wait();
  EXPECT_EQ(r.values(whole), in_order(row, Collective::Kind::all_reduce, n, hosts));
  const Tensor array = r.floats(n * r.size, values), part = r.floats(n);
  r.comm.reduce_scatter(array, part)->wait();
  const auto all = in_order(row, Collective::Kind::reduce_scatter, n * r.size, hosts);
  EXPECT_EQ(r.values(part),
            std::vector<float>(all.begin() + r.rank * n, all.begin() + (r.rank + 1) * n));
}

TEST_P(AlgorithmSums, RunInTheOrderThatTheRowNames) {
  const auto& [algorithm, size] = GetParam();
  const AlgorithmRow& row = peer::find_algorithm(algorithm);
  const std::vector<int> one_host(static_cast<std::size_t>(size));
  const auto body = [&](const Rank& r) { expect_sums_in_order(row, one_host, r); };
  run_ranks(size, body, algorithm);
  for (Simulated simulated : {rings_as_messages(size), rings_as_flows(size), one_pass()}) {
    simulated.algorithm = algorithm;
    run_simulated(simulated, size, body);
  }
}

TEST_P(AlgorithmSums, RunInTheOrderThatTheRowNamesBetweenMachinesToo) {
  const auto& [algorithm, size] = GetParam();
  if (size % 2 != 0) return;  // then two machines cannot have equally many ranks
  const AlgorithmRow& row = peer::find_algorithm(algorithm);
  for (const bool messages : {true, false}) {
    Simulated simulated = messages ? rings_as_messages(size / 2) : rings_as_flows(size / 2);
    simulated.cluster.machines = 2;
    simulated.algorithm = algorithm;
    std::vector<int> hosts;
    for (int r = 0; r < size; ++r) hosts.push_back(simulated.place(r).machine);
    run_simulated(simulated, size, [&](const Rank& r) { expect_sums_in_order(row, hosts, r); });
  }
}

TEST(Algorithms, RoundEverySumOf16Bits) {
  const int size = 5;
  for (const AlgorithmRow& row : peer::algorithm_rows())
    run_ranks(
        size,
        [&](const Rank& r) {
          const std::int64_t n = 40;
          const auto value = [](int rank, std::int64_t i) {
            return to_bf16(static_cast<float>(rank * 257 + i * 3) / 7);
          };
          std::vector<bf16> values;
          for (std::int64_t i = 0; i < n; ++i) values.push_back(value(r.rank, i));
          const Tensor array = r.device.tensor({n}, MemoryKind::gradient, DType::bf16);
          r.device.write(array, std::as_bytes(std::span(values)));
          r.comm.all_reduce(array)->wait();
          r.device.read(array, std::as_writable_bytes(std::span(values)));
          for (const Sum& sum : row.sums(Collective::Kind::all_reduce, n, std::vector<int>(size)))
            for (std::int64_t i = sum.begin; i < sum.begin + sum.count; ++i) {
              std::vector<bf16> all;
              for (int rank = 0; rank < size; ++rank) all.push_back(value(rank, i));
              for (const Addition& one : sum.additions) {
                bf16& into = all[static_cast<std::size_t>(one.into)];
                into = to_bf16(to_float(into) + to_float(all[static_cast<std::size_t>(one.from)]));
              }
              const auto result = static_cast<std::size_t>(sum.additions.back().into);
              EXPECT_EQ(to_float(values[static_cast<std::size_t>(i)]), to_float(all[result]))
                  << name_of(row.algorithm) << " element " << i;
            }
        },
        row.algorithm);
}

// ---- costs

struct Cost {
  std::int64_t steps = 0;
  std::int64_t most_sent = 0;  // elements that the busiest rank sends
};

Cost cost_of(Algorithm algorithm, Collective::Kind kind, std::int64_t count,
             const std::vector<int>& hosts) {
  Cost cost;
  std::map<int, std::int64_t> sent;
  for (const Round& round :
       schedule_of(peer::find_algorithm(algorithm), {.kind = kind}, count, hosts)) {
    cost.steps += round.repeats;
    for (const Transfer& one : round.transfers) sent[one.from] += one.count;
  }
  for (const auto& [rank, elements] : sent) cost.most_sent = std::max(cost.most_sent, elements);
  return cost;
}

int log2_of(int value) { return std::bit_width(static_cast<unsigned>(value)) - 1; }

TEST(AlgorithmCosts, AreTheClosedFormsOfTheLiterature) {
  for (const int p : {2, 3, 4, 5, 7, 8, 16, 31, 64}) {
    SCOPED_TRACE(p);
    const std::vector<int> one_host(static_cast<std::size_t>(p));
    const std::int64_t s = 1024 * p * 64;  // every part has whole cache lines
    const auto reduce = [&](Algorithm algorithm) {
      return cost_of(algorithm, Collective::Kind::all_reduce, s, one_host);
    };
    const auto scatter = [&](Algorithm algorithm) {
      return cost_of(algorithm, Collective::Kind::reduce_scatter, s, one_host);
    };
    const auto gather = [&](Algorithm algorithm) {
      return cost_of(algorithm, Collective::Kind::all_gather, s, one_host);
    };
    const int doublings = log2_of(p), extra = std::has_single_bit(static_cast<unsigned>(p)) ? 0 : 2;
    const std::int64_t others = s / p * (p - 1);

    EXPECT_EQ(reduce(Algorithm::ring).steps, 2 * (p - 1));
    EXPECT_EQ(reduce(Algorithm::ring).most_sent, 2 * others);
    EXPECT_EQ(scatter(Algorithm::ring).steps, p - 1);
    EXPECT_EQ(scatter(Algorithm::ring).most_sent, others);
    EXPECT_EQ(gather(Algorithm::ring).steps, p - 1);
    EXPECT_EQ(gather(Algorithm::ring).most_sent, others);

    EXPECT_EQ(reduce(Algorithm::recursive_doubling).steps, doublings + extra);
    EXPECT_EQ(reduce(Algorithm::recursive_doubling).most_sent, s * (doublings + extra / 2));

    EXPECT_EQ(reduce(Algorithm::halving_doubling).steps, 2 * doublings + extra);
    EXPECT_EQ(scatter(Algorithm::halving_doubling).steps, doublings + extra);
    EXPECT_EQ(gather(Algorithm::halving_doubling).steps, doublings + extra);
    if (extra == 0) {
      EXPECT_EQ(reduce(Algorithm::halving_doubling).most_sent, 2 * others);
      EXPECT_EQ(scatter(Algorithm::halving_doubling).most_sent, others);
      EXPECT_EQ(gather(Algorithm::halving_doubling).most_sent, others);
    }

    EXPECT_EQ(reduce(Algorithm::naive).steps, p);
    EXPECT_EQ(reduce(Algorithm::naive).most_sent, (p - 1) * s);

    // Blocks of 16,384 elements or more, at most 64 in each half.
    const std::int64_t blocks = std::clamp<std::int64_t>(s / 2 / 16384, 1, 64);
    EXPECT_EQ(reduce(Algorithm::tree).steps, blocks + 2 * doublings - 1);
    EXPECT_LE(reduce(Algorithm::tree).most_sent, 2 * s);
    EXPECT_GE(reduce(Algorithm::tree).most_sent, 2 * others);
  }
}

TEST(AlgorithmCosts, OfTheHierarchyAreThoseOfItsRings) {
  for (const int machines : {2, 3, 8})
    for (const int devices : {1, 2, 8}) {
      SCOPED_TRACE(fmt::format("{} x {}", machines, devices));
      const int p = machines * devices;
      std::vector<int> hosts;
      for (int r = 0; r < p; ++r) hosts.push_back(r / devices);
      const std::int64_t s = 1024 * p;
      const Cost reduce = cost_of(Algorithm::hierarchical, Collective::Kind::all_reduce, s, hosts);
      EXPECT_EQ(reduce.steps, 2 * (devices - 1) + 2 * (machines - 1));
      EXPECT_EQ(reduce.most_sent, 2 * (s / p * (p - 1)));
      std::int64_t between = 0;
      for (const Round& round : schedule_of(peer::find_algorithm(Algorithm::hierarchical),
                                            {.kind = Collective::Kind::all_reduce}, s, hosts))
        for (const Transfer& one : round.transfers)
          if (one.from == 0 && hosts[static_cast<std::size_t>(one.to)] != 0) between += one.count;
      EXPECT_EQ(between, 2 * (s / p * (machines - 1)));
    }
}

TEST(AlgorithmCosts, ARankOnOneHostMoreIsNoHierarchy) {
  const std::vector<int> hosts = {0, 0, 1};
  EXPECT_THROW(peer::find_algorithm(Algorithm::hierarchical).check(hosts), Error);
}

/// Seconds of an all-reduce of `bytes` between simulated GPUs that hold no values.
double seconds(Simulated simulated, Algorithm algorithm, int size, std::int64_t bytes) {
  simulated.algorithm = algorithm;
  simulated.numerics = false;
  return run_simulated(simulated, size,
                       [&](const Rank& r) { r.comm.all_reduce(r.floats(bytes / 4))->wait(); });
}

constexpr double base = 8 * 1e-6, step = 3 * 1e-6, port = 10e9;  // of small_cluster()

/// The time of an all-reduce of `s` bytes between p GPUs behind one switch.
double closed_form(Algorithm algorithm, int p, double s) {
  const int doublings = log2_of(p), players = 1 << doublings, pairs = p - players;
  const double whole = step + s / port;
  switch (algorithm) {
    case Algorithm::ring:
    case Algorithm::hierarchical:
      return 2 * (p - 1) * (step + s / p / port);
    case Algorithm::recursive_doubling:
      return (doublings + (pairs > 0 ? 2 : 0)) * whole;
    case Algorithm::halving_doubling: {
      double seconds = pairs > 0 ? 2 * whole : 0;
      // The first players stand for two ranks each, and so have the longest segments.
      for (int distance = 1; distance < players; distance *= 2)
        seconds += 2 * (step + (distance + std::min(pairs, distance)) * s / p / port);
      return seconds;
    }
    case Algorithm::naive:
      return (p - 1) * whole + step + (p - 1) * s / port;
    case Algorithm::tree: {
      // Every round takes as long as the port that is busiest in it. Two messages of a round from
      // one rank to another follow each other.
      double seconds = 0;
      for (const Round& round : schedule_of(
               peer::find_algorithm(algorithm), {.kind = Collective::Kind::all_reduce},
               static_cast<std::int64_t>(s) / 4, std::vector<int>(static_cast<std::size_t>(p)))) {
        std::map<std::pair<int, bool>, double> ports;
        std::map<std::pair<int, int>, double> latencies;
        double longest = 0, latency = 0;
        for (const Transfer& one : round.transfers) {
          latency = std::max(latency, latencies[{one.from, one.to}] += step);
          for (const auto& end : {std::pair(one.from, true), std::pair(one.to, false)})
            longest = std::max(longest, ports[end] += 4 * static_cast<double>(one.count) / port);
        }
        seconds += static_cast<double>(round.repeats) * latency + longest;
      }
      return seconds;
    }
    case Algorithm::native:
    case Algorithm::automatic:
    case Algorithm::library:
      break;
  }
  return 0;
}

TEST(AlgorithmTimes, OnOneSwitchAreTheirClosedForms) {
  for (const AlgorithmRow& row : peer::algorithm_rows())
    for (const int p : worlds)
      for (const std::int64_t bytes : {std::int64_t{4} * 16 * 840, std::int64_t{64} * 840 * 1000}) {
        const double expected = base + closed_form(row.algorithm, p, static_cast<double>(bytes));
        SCOPED_TRACE(fmt::format("{} {} {}", name_of(row.algorithm), p, bytes));
        EXPECT_NEAR(seconds(rings_as_messages(p), row.algorithm, p, bytes), expected,
                    0.02 * expected);
        EXPECT_NEAR(seconds(rings_as_flows(p), row.algorithm, p, bytes), expected, 0.02 * expected);
      }
}

TEST(AlgorithmTimes, OfTheHierarchyAreTheTimesOfItsRings) {
  const double nic = 1e9, between = 10 * 1e-6, s = 64 * 840 * 1000;
  const int machines = 2, devices = 4;
  const double expected = base + 2 * (devices - 1) * (step + s / devices / port) +
                          2 * (machines - 1) * (between + s / devices / machines / nic);
  EXPECT_NEAR(seconds(two_machines(), Algorithm::hierarchical, 8, static_cast<std::int64_t>(s)),
              expected, 0.02 * expected);
}

TEST(AlgorithmChoice, IsHardlySlowerThanTheFastestInTheSimulation) {
  for (const auto& [machines, devices] : {std::pair(1, 4), {1, 8}, {2, 4}, {4, 2}, {5, 1}})
    for (const std::int64_t bytes :
         {std::int64_t{4096}, std::int64_t{1} << 18, std::int64_t{1} << 25}) {
      Simulated simulated = rings_as_messages(devices);
      simulated.cluster.machines = machines;
      simulated.cluster.nics = devices;
      const int size = machines * devices;
      double best = std::numeric_limits<double>::infinity();
      for (const AlgorithmRow& row : peer::algorithm_rows())
        best = std::min(best, seconds(simulated, row.algorithm, size, bytes));
      EXPECT_LT(seconds(simulated, Algorithm::automatic, size, bytes), 1.1 * best)
          << machines << " machines of " << devices << ", " << bytes << " bytes";
    }
}

TEST(AlgorithmChoice, DependsOnSizeAndTopology) {
  const auto chosen = [](std::int64_t machines, int devices, std::int64_t count) {
    sim::ClusterSpec cluster = small_cluster(devices);
    cluster.machines = machines;
    cluster.nics = devices;
    std::vector<sim::Place> places;
    for (int machine = 0; machine < machines; ++machine)
      for (int device = 0; device < devices; ++device) places.push_back({machine, device});
    return peer::Choice(peer::link_costs(cluster, places))
        .row({.kind = Collective::Kind::all_reduce}, count, 4)
        .algorithm;
  };
  EXPECT_EQ(chosen(1, 8, 256), Algorithm::recursive_doubling);
  EXPECT_EQ(chosen(1, 8, 1 << 24), Algorithm::halving_doubling);
  EXPECT_EQ(chosen(8, 8, 1 << 24), Algorithm::hierarchical);
}

}  // namespace
}  // namespace ringside::testing
