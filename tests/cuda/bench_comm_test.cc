// Ranks of `ringside bench comm --device cuda`: as threads, since the double of NCCL knows no
// processes.
#include <sys/socket.h>

#include <thread>

#include "core/launch/rank_link.h"
#include "experiments/tools/bench/connected_ranks.h"
#include "experiments/tools/bench/own_processes.h"
#include "experiments/tools/bench/own_ranks.h"
#include "experiments/tools/bench/rank_group.h"
#include "tests/cuda/fixture.h"
#include "tests/cuda_on_host/control.h"

namespace ringside::tools::bench {
namespace {

class CudaBench : public OnGpu {
 protected:
  CudaBench() { device_.kind = "cuda"; }
  void TearDown() override { cuda_on_host::set_device_count(1); }

  /// Measures all operations between ranks on as many GPUs; returns the note of the ranks.
  std::string measure_all(int ranks, int gpus);

  DeviceConfig device_;
};

std::string CudaBench::measure_all(int ranks, int gpus) {
  cuda_on_host::set_device_count(gpus);
  const RunPlan plan = plan_of_ranks(device_, ranks, 60);
  MemoryStore store;
  std::vector<std::unique_ptr<JsonLine>> lines;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) throw Error("no pair of sockets");
    lines.push_back(std::make_unique<JsonLine>(ends[0]));
    threads.emplace_back([&, rank, socket = ends[1]] {
      const auto own = make_own_rank(plan, rank, store, {Algorithm::native});
      RankLink link(std::make_unique<JsonLine>(socket));
      EXPECT_TRUE(serve({[&](double timeout_s) { return link.hear(timeout_s); },
                         [&](const nlohmann::json& value) { link.send(value); }},
                        rank, *own));
    });
  }
  RankGroup group("bench comm: nccl", std::make_unique<ConnectedRanks>(std::move(lines)), ranks,
                  {});
  for (const CommOperation& operation : comm_operations()) {
    group.prepare(operation.name, count_of(operation, 4 * 300, ranks));
    for (const double us : group.turn("native", 2)) EXPECT_GT(us, 0) << operation.name;
    EXPECT_EQ(group.count_wrong(), 0) << operation.name;
  }
  group.close();
  for (std::thread& thread : threads) thread.join();
  return group.note();
}

TEST_F(CudaBench, HasRightResultsOfAllOperations) { EXPECT_EQ(measure_all(3, 3), ""); }

TEST_F(CudaBench, RanksShareGpusWhereThereAreFewer) {
  EXPECT_EQ(measure_all(3, 2), "3 ranks share 2 GPUs: not a performance figure");
}

TEST_F(CudaBench, AMachineWithoutGpusSaysSo) {
  cuda_on_host::set_device_count(0);
  EXPECT_NE(testing::complaint([&] { plan_of_ranks(device_, 2, 60); }).find("GPU"),
            std::string::npos);
}

}  // namespace
}  // namespace ringside::tools::bench
