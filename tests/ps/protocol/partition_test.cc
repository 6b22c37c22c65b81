#include "ps/protocol/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace ringside::ps {
namespace {

constexpr std::int64_t max_elements = max_chunk_bytes / 4;

/// Checks the properties that hold for all sizes of units and all numbers of servers.
void expect_partition(const std::vector<std::int64_t>& units, int servers) {
  const std::vector<Chunk> chunks = partition(units, servers);
  std::int64_t next = 0, largest = 0;
  std::vector<std::int64_t> load(static_cast<std::size_t>(servers));
  for (const Chunk& chunk : chunks) {
    EXPECT_EQ(chunk.begin, next) << "chunks lie one after the other, without gaps";
    next += chunk.count;
    EXPECT_GT(chunk.count, 0);
    EXPECT_LE(chunk.count, max_elements);
    const auto unit = units.begin() + static_cast<std::ptrdiff_t>(chunk.unit);
    const std::int64_t first = std::accumulate(units.begin(), unit, std::int64_t{0});
    EXPECT_GE(chunk.begin, first);
    EXPECT_LE(chunk.begin + chunk.count, first + *unit) << "a chunk belongs to one unit";
    EXPECT_EQ((chunk.begin - first) % 16, 0);
    ASSERT_LT(chunk.server, servers);
    load[static_cast<std::size_t>(chunk.server)] += chunk.count;
    largest = std::max(largest, chunk.count);
  }
  EXPECT_EQ(next, std::accumulate(units.begin(), units.end(), std::int64_t{0}));
  const auto [least, most] = std::minmax_element(load.begin(), load.end());
  EXPECT_LE(*most - *least, largest);
  EXPECT_EQ(chunks, partition(units, servers)) << "the same for everybody";
}

TEST(Partition, CoversEveryUnitOnceAndBalances) {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::int64_t> units(1 + random() % 12);
    for (auto& count : units)
      count = random() % 3 == 0 ? random() % 50 : random() % (5 * max_elements);
    expect_partition(units, static_cast<int>(1 + random() % 7));
  }
}

TEST(Partition, GivesServersWhatTheirSharesSay) {
  std::mt19937 random(11);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::int64_t> units(1 + random() % 12), shares(1 + random() % 6);
    for (auto& count : units) count = random() % (5 * max_elements);
    for (auto& share : shares) share = random() % 4 == 0 ? 0 : random() % 30;
    shares[random() % shares.size()] = 7;
    const std::vector<Chunk> chunks = partition(units, shares);
    std::vector<std::int64_t> held(shares.size());
    std::int64_t largest = 0;
    for (const Chunk& chunk : chunks) {
      held[static_cast<std::size_t>(chunk.server)] += chunk.count;
      largest = std::max(largest, chunk.count);
    }
    const auto sum = [](const auto& v) { return std::accumulate(v.begin(), v.end(), 0LL); };
    const auto servers = shares.size() - static_cast<std::size_t>(std::ranges::count(shares, 0));
    const auto most = sum(units) + static_cast<std::int64_t>(servers - 1) * largest;
    for (std::size_t s = 0; s < shares.size(); ++s)
      EXPECT_LE(held[s] * sum(shares), shares[s] * most) << "server " << s;
  }
}

TEST(Partition, OfEqualSharesIsThatOfAsManyServers) {
  const std::vector<std::int64_t> units = {700'000, 3, 0, 300'000, 999'999, 40};
  EXPECT_EQ(partition(units, 3), partition(units, std::vector<std::int64_t>{5, 5, 5}));
}

TEST(Partition, CutsAtTheLimitIntoNearlyEqualChunks) {
  const auto chunks = partition({max_elements, max_elements + 1}, 1);
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[0], (Chunk{0, 0, max_elements, 0}));
  EXPECT_EQ(chunks[1], (Chunk{1, max_elements, max_elements / 2 + 16, 0}));
  EXPECT_EQ(chunks[2].count, max_elements / 2 - 15);
}

TEST(Partition, LeavesServersEmptyWhereThereAreFewerChunks) {
  const auto chunks = partition({10, 20}, 4);
  ASSERT_EQ(chunks.size(), 2u);
  EXPECT_NE(chunks[0].server, chunks[1].server);
}

TEST(Partition, AUnitWithoutParametersHasNoChunk) {
  const auto chunks = partition({10, 0, 5}, 1);
  ASSERT_EQ(chunks.size(), 2u);
  EXPECT_EQ(chunks[1], (Chunk{2, 10, 5, 0}));
}

/// The tensors of units of random sizes.
std::vector<std::vector<std::int64_t>> random_tensors(std::mt19937& random) {
  std::vector<std::vector<std::int64_t>> units(1 + random() % 8);
  for (auto& tensors : units) {
    tensors.resize(random() % 6);
    for (auto& count : tensors)
      count = random() % 3 == 0 ? random() % 50 : random() % (3 * max_elements);
  }
  return units;
}

TEST(PartitionOfTensors, GivesAllOfATensorToOneServer) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    const auto units = random_tensors(random);
    const std::vector<std::int64_t> shares(1 + random() % 6, 1);
    const auto servers = static_cast<std::int64_t>(shares.size());
    for (const PartitionBy by : {PartitionBy::tensors, PartitionBy::round_robin}) {
      const std::vector<Chunk> chunks = partition_tensors(units, shares, by);
      std::vector<std::int64_t> held(shares.size());
      std::int64_t begin = 0, largest = 0, number = 0;
      auto chunk = chunks.begin();
      for (std::size_t u = 0; u < units.size(); ++u)
        for (const std::int64_t count : units[u]) {
          const int server = chunk == chunks.end() ? 0 : chunk->server;
          for (const std::int64_t end = begin + count; begin < end; ++chunk) {
            ASSERT_NE(chunk, chunks.end());
            EXPECT_EQ(chunk->begin, begin) << "without gaps";
            EXPECT_EQ(chunk->unit, u);
            EXPECT_EQ(chunk->server, server);
            EXPECT_LE(chunk->count, max_elements);
            begin += chunk->count;
            EXPECT_LE(begin, end) << "a chunk belongs to one tensor";
          }
          if (by == PartitionBy::round_robin && count > 0) {
            EXPECT_EQ(server, number % servers);
          }
          ++number;
          largest = std::max(largest, count);
          held[static_cast<std::size_t>(server)] += count;
        }
      EXPECT_EQ(chunk, chunks.end());
      const auto [least, most] = std::minmax_element(held.begin(), held.end());
      if (by == PartitionBy::tensors) {
        EXPECT_LE(*most - *least, largest);
      }
    }
  }
}

TEST(PartitionOfTensors, PassesOverServersWithoutAShare) {
  const auto chunks = partition_tensors({{5, 6}, {7}}, {1, 0, 1}, PartitionBy::round_robin);
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[0], (Chunk{0, 0, 5, 0}));
  EXPECT_EQ(chunks[1], (Chunk{0, 5, 6, 2}));
  EXPECT_EQ(chunks[2], (Chunk{1, 11, 7, 0}));
}

TEST(PartitionOfTensors, LeavesALargeTensorWhole) {
  const auto chunks =
      partition_tensors({{4 * max_elements}, {10, 20}}, {1, 1}, PartitionBy::tensors);
  ASSERT_EQ(chunks.size(), 6u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(chunks[static_cast<std::size_t>(i)].server, 0);
  EXPECT_EQ(chunks[4].server, 1);
  EXPECT_EQ(chunks[5].server, 1);
}

}  // namespace
}  // namespace ringside::ps
