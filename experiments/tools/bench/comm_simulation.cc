#include <fmt/format.h>

#include <algorithm>

#include "core/device/sim/sim_device.h"
#include "core/plan/device_traits.h"
#include "core/sim/world.h"
#include "experiments/tools/bench/comm_measured.h"
#include "experiments/tools/bench/own_ranks.h"
#include "peer/comm/sim/communicator.h"

namespace ringside::tools::bench {
namespace {

/// Virtual seconds of one call, from the last begin to the last end.
double simulated_seconds(const CommBench& bench, const CommOperation& operation,
                         Algorithm algorithm, int world, std::int64_t size) {
  const sim::ClusterSpec& cluster = *bench.cluster;
  const auto simulated = sim::make_world(cluster);
  double begin = 0, end = 0;
  for (int rank = 0; rank < world; ++rank) {
    const auto devices = static_cast<int>(cluster.devices);
    const sim::Place place{rank / devices, rank % devices};
    simulated->spawn(fmt::format("rank {}", rank), place, [&, rank, place] {
      const auto device = sim::make_sim_device(cluster, simulated.get(), place, nullptr);
      const auto comm = peer::make_sim_communicator(*device, {"bench", rank, world, algorithm},
                                                    {.timeout_s = bench.timeout_s});
      const std::int64_t count = count_of(operation, size, world);
      const Operands operands = operands_of(*device, operation, count, rank, world);
      comm->barrier();
      begin = std::max(begin, simulated->now());
      ringside::tools::bench::begin(*comm, operation, operands)->wait();
      end = std::max(end, simulated->now());
    });
  }
  simulated->run();
  return end - begin;
}

}  // namespace

void bench_simulation(const CommBench& bench, int world, const Report& report) {
  for (const std::string& name : bench.operations)
    for (const std::int64_t size : bench.sizes)
      for (const Algorithm algorithm : bench.algorithms) {
        const CommOperation& operation = find_comm_operation(name);
        const double seconds = simulated_seconds(bench, operation, algorithm, world, size);
        CommRow row = measured(operation, algorithm, world, count_of(operation, size, world),
                               {seconds * 1e6});
        row.communicator = device_traits("sim").communicator;
        report(row);
      }
}

}  // namespace ringside::tools::bench
