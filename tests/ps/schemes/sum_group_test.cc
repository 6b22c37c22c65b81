// The parts of the model that members of a group push, the servers that keep them, and the bytes
// sent.
#include "ps/schemes/sum_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/device/cpu/cpu_device.h"
#include "core/plan/places.h"
#include "ps/schemes/ps.h"
#include "ps/schemes/ps_parts.h"
#include "tests/support/layer_units.h"

namespace ringside::ps {
namespace {

using ::testing::ElementsAre;

TEST(PartsOfAUnit, AreEqualAndTheLastOneHasTheRest) {
  for (const std::int64_t count : {1, 7, 8, 50, 4099})
    for (const int group : {1, 2, 3, 8}) {
      std::int64_t end = 0;
      for (int member = 0; member < group; ++member) {
        const UnitPart part = part_of(count, group, member);
        EXPECT_EQ(part.begin, end);
        if (member + 1 < group) {
          EXPECT_EQ(part.count, count / group);
        }
        end += part.count;
      }
      EXPECT_EQ(end, count);
    }
}

TEST(SumsOverGroups, AreMadeWithinGroupsFirst) {
  const Sum sum = sum_over_groups(10, 6, 2);
  EXPECT_EQ(sum.count, 10);
  EXPECT_THAT(sum.additions, ElementsAre(Addition{0, 1}, Addition{2, 3}, Addition{4, 5},
                                         Addition{0, 2}, Addition{0, 4}));
  EXPECT_THAT(sum_over_groups(10, 3, 3).additions, ElementsAre(Addition{0, 1}, Addition{0, 2}));
}

class ChunksOfGroups : public ::testing::Test {
 protected:
  static constexpr int world = 8;
  ChunksOfGroups() {
    for (const std::int64_t count : {5003, 3, 2048})
      model_.units.push_back(std::make_unique<testing::ValuesUnit>(count, *device_));
  }
  std::vector<Chunk> chunks(PsOptions options) const {
    options.partition_mb = 1e-3;  // 250 elements
    return chunks_of(model_, world, options);
  }

  std::unique_ptr<Device> device_ = make_cpu_device(1);
  Model model_;
};

TEST_F(ChunksOfGroups, CoverTheModelAndLieInThePartOfTheirMember) {
  for (const std::int64_t group : {1, 2, 4, 8, 16}) {
    const int members = static_cast<int>(std::min<std::int64_t>(group, world));
    std::int64_t end = 0;
    for (const Chunk& chunk : chunks({.servers = 3, .sum_group = group})) {
      EXPECT_EQ(chunk.begin, end);
      EXPECT_LE(chunk.count, 250);
      EXPECT_EQ(chunk.group, members);
      const UnitPart part =
          part_of(model_.units[chunk.unit]->layout().count(), members, chunk.member);
      const std::int64_t in_unit = chunk.begin - model_.first_parameter(chunk.unit);
      EXPECT_GE(in_unit, part.begin);
      EXPECT_LE(in_unit + chunk.count, part.begin + part.count);
      end = chunk.begin + chunk.count;
    }
    EXPECT_EQ(end, model_.parameter_count());
  }
}

TEST_F(ChunksOfGroups, LieOnServersColocatedWithTheirWorkers) {
  for (const Chunk& chunk :
       chunks({.servers = 8, .placement = Placement::colocated, .sum_group = 2}))
    EXPECT_TRUE(chunk.is_of(chunk.server)) << chunk.begin;
  std::vector<std::int64_t> kept(10);
  for (const Chunk& chunk : chunks({.servers = 2, .placement = Placement::mixed, .sum_group = 2})) {
    EXPECT_TRUE(chunk.server >= world || chunk.is_of(chunk.server)) << chunk.begin;
    kept[static_cast<std::size_t>(chunk.server)] += chunk.count;
  }
  // n = 4 groups and k = 2 servers: 2 parts on servers colocated with the two workers of a group,
  // and 6 of 20 on each dedicated server.
  const double part = static_cast<double>(model_.parameter_count()) / 20;
  for (std::size_t s = 0; s < kept.size(); ++s)
    EXPECT_NEAR(static_cast<double>(kept[s]), s < world ? part : 6 * part, 250) << s;
}

/// A server keeps its share of the model, and of it what the worker pushes beside which it is, as
/// far as others do not keep the same part.
TEST_F(ChunksOfGroups, LieOnServersColocatedWithTheirWorkersIfMembersHaveUnequallyMany) {
  const auto model = static_cast<double>(model_.parameter_count());
  for (const int group : {2, 4, 8})
    for (const int servers : {1, 2, 3, 5, 7}) {
      SCOPED_TRACE(fmt::format("{} servers, groups of {}", servers, group));
      const std::vector<int> colocated = workers_with_servers(servers, world, group);
      std::vector<std::int64_t> kept(static_cast<std::size_t>(servers)), own = kept;
      for (const Chunk& chunk :
           chunks({.servers = servers, .placement = Placement::colocated, .sum_group = group})) {
        const auto s = static_cast<std::size_t>(chunk.server);
        kept[s] += chunk.count;
        if (chunk.is_of(colocated[s])) own[s] += chunk.count;
      }
      const int most = (servers + group - 1) / group;
      for (std::size_t s = 0; s < kept.size(); ++s) {
        EXPECT_NEAR(static_cast<double>(kept[s]), model / servers, 500) << s;
        EXPECT_GE(static_cast<double>(own[s]), model / group / most - 250) << s;
      }
    }
}

TEST(WorkersWithServers, AreEvenlySpacedAndSpreadOverTheMembersOfGroups) {
  EXPECT_THAT(workers_with_servers(2, 4, 1), ElementsAre(0, 2));
  EXPECT_THAT(workers_with_servers(3, 8, 1), ElementsAre(0, 2, 5));
  EXPECT_THAT(workers_with_servers(2, 4, 2), ElementsAre(0, 3));
  EXPECT_THAT(workers_with_servers(3, 4, 2), ElementsAre(0, 1, 2));
  EXPECT_THAT(workers_with_servers(2, 8, 8), ElementsAre(0, 4)) << "even places are good ones";
  for (const int world : {8, 12, 24})
    for (const int group : {1, 2, 4})
      for (int servers = 1; servers <= world; ++servers) {
        const std::vector<int> colocated = workers_with_servers(servers, world, group);
        std::vector<int> counts(static_cast<std::size_t>(group));
        for (int s = 0; s < servers; ++s) {
          const int worker = colocated[static_cast<std::size_t>(s)];
          EXPECT_EQ(worker / group, s * world / servers / group) << "in the same group";
          ++counts[static_cast<std::size_t>(worker % group)];
        }
        EXPECT_EQ(std::set<int>(colocated.begin(), colocated.end()).size(), colocated.size());
        EXPECT_LE(std::ranges::max(counts) - std::ranges::min(counts), 1);
      }
}

TEST(SharesOfServers, AreThoseOfTheGroupsMachines) {
  EXPECT_THAT(shares_of_servers(Placement::mixed, 1, 8, 4), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 8));
  EXPECT_THAT(shares_of_servers(Placement::mixed, 1, 2, 2), ElementsAre(1, 1, 0));
  EXPECT_THAT(shares_of_servers(Placement::dedicated, 2, 8, 4), ElementsAre(1, 1));
}

/// 8 workers in groups of 4; each sends 2 * 800 * 3 / 4 bytes within its group, and pushes 200.
TEST(LeastBytesOfGroups, AreThoseWithinTheGroupAndAPartToServers) {
  const auto least = [](Placement placement, std::int64_t servers, std::int64_t reductions = 1) {
    const PsOptions options{.servers = servers, .placement = placement, .sum_group = 4};
    return ps_minimum_bytes({.world = 8,
                             .servers = static_cast<int>(count_servers(options, 8).all),
                             .reductions = reductions,
                             .parameter_bytes = 800},
                            options);
  };
  EXPECT_DOUBLE_EQ(least(Placement::dedicated, 2), 1200 + 200);
  EXPECT_DOUBLE_EQ(least(Placement::dedicated, 2, 3), 2400 + 600);
  EXPECT_DOUBLE_EQ(least(Placement::dedicated, 1), 2 * 800) << "to one worker of each group";
  // A server of 100 bytes keeps half of what its worker pushes, and sends to one other worker.
  EXPECT_DOUBLE_EQ(least(Placement::colocated, 8), 1200 + 100 + 100);
  // A server of 400 bytes keeps all of it; workers without a server push all.
  EXPECT_DOUBLE_EQ(least(Placement::colocated, 2), 1200 + 600);
  // 50 bytes on each colocated server, 400 on the dedicated one.
  EXPECT_DOUBLE_EQ(least(Placement::mixed, 1), 1200 + 150 + 50);
}

}  // namespace
}  // namespace ringside::ps
