// Collectives between simulated ranks on cores of several machines: what they move, and how long
// that takes.
#include "peer/comm/sim/hosts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "peer/comm/hosts/staging.h"
#include "tests/peer/sim_ranks.h"

namespace ringside::peer {
namespace {

using Kind = Collective::Kind;
using testing::Rank;
using testing::run_simulated;
using testing::Simulated;
using testing::two_hosts;

constexpr double mb = 1 << 20;
constexpr auto segment = static_cast<double>(segment_bytes);

/// Bytes that go from one machine to another, by their numbers.
std::map<std::pair<int, int>, double> over_links(Kind kind, double bytes,
                                                 const std::vector<int>& machines) {
  const Collective call{.kind = kind, .bytes = static_cast<std::uint64_t>(bytes)};
  std::map<std::pair<int, int>, double> out;
  for (const auto& one : moves_between_hosts(call, machines).sent)
    out[{machines[static_cast<std::size_t>(one.from)],
         machines[static_cast<std::size_t>(one.to)]}] += one.bytes;
  return out;
}

int steps(Kind kind, const std::vector<int>& machines) {
  return moves_between_hosts({.kind = kind, .bytes = 1 << 24}, machines).steps;
}

/// The closed forms of peer/comm/hosts/communicator.h.
TEST(MovesBetweenHosts, OfRanksThatAreAloneAreThoseOfOwners) {
  const double s = 24 * mb;
  for (const int hosts : {2, 3, 4}) {
    std::vector<int> machines(static_cast<std::size_t>(hosts));
    std::iota(machines.begin(), machines.end(), 0);
    const auto expect = [&](Kind kind, double bytes) {
      const auto links = over_links(kind, s, machines);
      EXPECT_EQ(links.size(), static_cast<std::size_t>(hosts * (hosts - 1))) << name_of(kind);
      for (const auto& [link, moved] : links) EXPECT_NEAR(moved, bytes, 1e-3 * s) << name_of(kind);
    };
    expect(Kind::all_reduce, 2 * s / hosts);
    expect(Kind::reduce_scatter, s / hosts);
    expect(Kind::all_gather, s / hosts);
    expect(Kind::all_to_all, s / hosts);
    EXPECT_EQ(steps(Kind::all_reduce, machines), 2);
    EXPECT_EQ(steps(Kind::all_gather, machines), 1);
  }
}

TEST(MovesBetweenHosts, GoAlongAChainWhereHostsHaveSeveralRanks) {
  const double s = 24 * mb;
  const std::vector<int> machines = {0, 0, 1, 1, 2, 2};
  // Each of the two columns has its first and last segments alone on three of four hops.
  const double up = s + 2 * 3 * segment;
  const auto sums = over_links(Kind::all_reduce, s, machines);
  for (const auto& link : {std::pair(0, 1), std::pair(1, 2), std::pair(2, 1), std::pair(1, 0)})
    EXPECT_NEAR(sums.at(link), up, 1e-3 * s);
  EXPECT_EQ(sums.size(), 4U);
  EXPECT_EQ(steps(Kind::all_reduce, machines), 4);
  // Sums go back as far as their owners: a third of the array to each host.
  const auto parts = over_links(Kind::reduce_scatter, s, machines);
  EXPECT_NEAR(parts.at({2, 1}), 2 * s / 3 + 2 * 3 * segment, 1e-3 * s);
  EXPECT_NEAR(parts.at({1, 0}), s / 3 + 2 * 3 * segment, 1e-3 * s);
  // Blocks of a host cross each link once.
  for (const auto& [link, bytes] : over_links(Kind::all_gather, s, machines))
    EXPECT_NEAR(bytes, s / 3, 1e-3 * s);
}

TEST(MovesBetweenHosts, OfSumsOfOneSegmentOfTwoRanksAreOneMessageEach) {
  const auto steps_of = [](std::size_t bytes) {
    return moves_between_hosts({.kind = Kind::all_reduce, .bytes = bytes}, {0, 1}).steps;
  };
  for (const auto& [link, bytes] : over_links(Kind::all_reduce, segment, {0, 1}))
    EXPECT_EQ(bytes, segment);
  EXPECT_EQ(steps_of(segment_bytes), 1);
  EXPECT_EQ(steps_of(segment_bytes + sizeof(float)), 2);
}

double seconds_of_sum(Simulated simulated, int ranks, std::int64_t bytes) {
  simulated.numerics = false;
  return run_simulated(simulated, ranks,
                       [&](const Rank& r) { r.comm.all_reduce(r.floats(bytes / 4))->wait(); });
}

TEST(SimHosts, TakeTheTimeOfTheNetworkOrOfTheirCores) {
  const double s = 16 * mb, latency = (1 + 5 + 1) * 1e-6, steps = 2 * 10 * 1e-6;
  Simulated simulated = two_hosts(1);
  const auto seconds = [&] { return seconds_of_sum(simulated, 2, static_cast<std::int64_t>(s)); };
  EXPECT_NEAR(seconds(), steps + latency + s / 1e9, 1e-6);
  // A core reads three halves of the array for its sums, and serves the bytes of both directions.
  simulated.cluster.collective.network_us_per_mb = 1000;
  EXPECT_NEAR(seconds(), steps + 1.5 * s / 5e9 + 2 * s / 1e9, 1e-6);
}

TEST(SimHosts, OfTwoRanksEachSendASumUpAndDown) {
  const double s = 16 * mb;
  const double sent = s + 2 * segment;
  EXPECT_NEAR(seconds_of_sum(two_hosts(2), 4, static_cast<std::int64_t>(s)),
              (8 + 2 * 10 + 7) * 1e-6 + sent / 1e9, 1e-6);
}

}  // namespace
}  // namespace ringside::peer
