// The time of simulating collectives on this machine.
#include <gtest/gtest.h>

#include <ctime>

#include "tests/peer/sim_ranks.h"

namespace ringside {
namespace {

using testing::Rank;
using testing::run_simulated;
using testing::small_cluster;

TEST(SimCollectives, ManyGpusMakeAHundredAllGathersInSeconds) {
  sim::ClusterSpec cluster = small_cluster(8);
  cluster.machines = 128;
  cluster.nics = 8;
  cluster.machines_per_switch = 16;
  constexpr int ranks = 1024, operations = 100;
  constexpr std::int64_t part = 1 << 20;
  // Of this process. A core that others use too counts more than its own time; step by step it
  // would take minutes.
  const std::clock_t begin = std::clock();
  const double end =
      run_simulated({cluster, {.message_ranks = 8}, false}, ranks, [&](const Rank& r) {
        const Tensor mine = r.floats(part), all = r.floats(part * ranks);
        for (int i = 0; i < operations; ++i) r.comm.all_gather(mine, all)->wait();
      });
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 40);
  // A part takes 1023 hops round a ring of 1024 ranks. On the slowest way, 895 of them are hops of
  // 3 us within machines and 128 are hops of 10 us between machines. Each of a machine's 8 NICs
  // carries an eighth of the 1023 parts that a rank receives.
  const double once = 8 * 1e-6 + 895 * 3 * 1e-6 + 128 * 10 * 1e-6 + 1023.0 * part * 4 / 8 / 1e9;
  EXPECT_NEAR(end, operations * once, 0.01 * operations * once);
}

}  // namespace
}  // namespace ringside
