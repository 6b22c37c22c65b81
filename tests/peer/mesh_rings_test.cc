// The rings that are laid through a mesh, against what its links allow.
#include "peer/comm/sim/mesh_rings.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "peer/comm/sim/routes.h"
#include "tests/peer/sim_ranks.h"

namespace ringside::peer {
namespace {

/// The hybrid cube mesh of a DGX-1 with V100: every device has six links.
sim::ClusterSpec cube_mesh() {
  sim::ClusterSpec cluster = testing::small_cluster(8);
  cluster.topology = sim::Topology::mesh;
  cluster.mesh = {{0, 1}, {0, 2}, {1, 3}, {2, 6}, {3, 7}, {4, 5}, {4, 6}, {5, 7}};
  for (int twice = 0; twice < 2; ++twice)
    for (const auto& pair :
         {std::pair(0, 3), {0, 4}, {1, 2}, {1, 5}, {2, 3}, {4, 7}, {5, 6}, {6, 7}})
      cluster.mesh.emplace_back(pair);
  return cluster;
}

std::vector<std::vector<int>> rings_of(const std::vector<int>& devices) {
  const sim::ClusterSpec cluster = cube_mesh();
  std::vector<sim::Place> places;
  for (const int device : devices) places.push_back({0, device});
  const auto rings = rings_in_mesh(cluster, places);
  std::map<std::pair<int, int>, std::int64_t> used;
  for (const auto& ring : rings) {
    EXPECT_EQ(std::set<int>(ring.begin(), ring.end()).size(), devices.size());
    EXPECT_EQ(ring.size(), devices.size());
    for (std::size_t i = 0; i < ring.size(); ++i) ++used[{ring[i], ring[(i + 1) % ring.size()]}];
  }
  for (const auto& [ends, count] : used)
    EXPECT_LE(count, links_between(cluster, places[static_cast<std::size_t>(ends.first)],
                                   places[static_cast<std::size_t>(ends.second)]))
        << "from rank " << ends.first << " to " << ends.second;
  return rings;
}

TEST(RingsInMesh, AreAsManyAsTheLinksAllow) {
  EXPECT_EQ(rings_of({0, 1, 2, 3, 4, 5, 6, 7}).size(), 6u) << "six links of each device";
  EXPECT_EQ(rings_of({0, 1, 2, 3}).size(), 4u) << "four or five links of each device among these";
  EXPECT_EQ(rings_of({0, 1}).size(), 1u) << "one link";
  EXPECT_EQ(rings_of({3, 0}).size(), 2u) << "two links";
  EXPECT_EQ(rings_of({0, 1, 2}).size(), 2u) << "one ring, both ways";
}

TEST(RingsInMesh, AreNoneWhereLinksMakeNone) {
  EXPECT_TRUE(rings_of({0, 7}).empty()) << "no link";
  EXPECT_TRUE(rings_of({0, 1, 5, 6}).empty()) << "a line, not a ring";
  EXPECT_TRUE(rings_in_mesh(cube_mesh(), {{0, 0}}).empty());
  EXPECT_TRUE(rings_in_mesh(cube_mesh(), {{0, 0}, {0, 0}}).empty()) << "ranks that share a device";
  sim::ClusterSpec two = cube_mesh();
  two.machines = 2;
  EXPECT_TRUE(rings_in_mesh(two, {{0, 0}, {1, 0}}).empty()) << "two machines";
  EXPECT_TRUE(rings_in_mesh(testing::small_cluster(2), {{0, 0}, {0, 1}}).empty()) << "a switch";
}

TEST(RingsInMesh, ShareTheBytesOfAnAllReduce) {
  constexpr std::int64_t bytes = 240'000'000;
  for (const std::int64_t message_ranks : {0, 8}) {
    testing::Simulated simulated{cube_mesh(), {.message_ranks = message_ranks}, false};
    const double end = testing::run_simulated(simulated, 8, [](const testing::Rank& r) {
      r.comm.all_reduce(r.floats(bytes / 4))->wait();
    });
    // Six rings of 10 GB/s, 14 steps of 3 us, a base latency of 8 us.
    const double expected = 8e-6 + 14 * 3e-6 + 14.0 / 8 * bytes / 60e9;
    EXPECT_NEAR(end, expected, 1e-3 * expected) << message_ranks;
  }
}

}  // namespace
}  // namespace ringside::peer
