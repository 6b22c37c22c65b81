#include "experiments/tools/bench/comm_bench.h"

#include <utility>

#include "core/base/error.h"
#include "core/plan/device_traits.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/tools/bench/comm_measured.h"
#include "peer/comm/algorithms/algorithms.h"

namespace ringside::tools::bench {

CommRow measured(const CommOperation& operation, std::optional<Algorithm> algorithm, int world,
                 std::int64_t count, std::vector<double> us) {
  CommRow row;
  static_cast<CallTimes&>(row) = call_times(std::move(us), 4 * count, operation.bus_factor(world));
  row.world = world;
  row.operation = operation.name;
  row.algorithm = algorithm;
  row.size = 4 * count;
  row.count = count;
  row.reduction = operation.reduction;
  return row;
}

namespace {

/// The kinds of devices that are not simulated, as a text.
std::string real_kinds() {
  std::vector<std::string_view> kinds;
  for (const runner::DeviceRow& row : runner::device_rows())
    if (!device_traits(row.name).simulated) kinds.push_back(row.name);
  return one_of(kinds);
}

}  // namespace

void check(const CommBench& bench) {
  if (bench.cluster && !bench.beside.empty())
    throw Error(
        "--beside: other libraries run on this machine, not on a simulated one (--cluster); leave "
        "one of the two out");
  const std::string& kind = bench.device.kind;
  const DeviceTraits& device = device_traits(kind);
  if (device.kind.empty() || device.simulated)
    throw Error("--device {}: not a device of this machine; choose {}", kind, real_kinds());
  if (bench.cluster && kind != DeviceConfig().kind)
    throw Error(
        "--device {}: a simulated machine (--cluster) has its own devices; leave one of the two "
        "out",
        kind);
  if (bench.cluster && bench.rounds > 0)
    throw Error(
        "--rounds: a simulation needs one call of each; leave it out, or leave out --cluster");
  if (!device.on_processor && !bench.beside.empty())
    throw Error(
        "--beside: other libraries are measured on processors, not on GPUs (--device {}); leave "
        "one of the two out",
        kind);
  for (const Algorithm algorithm : bench.algorithms)
    if (device.sums_in_library && algorithm != Algorithm::native)
      throw Error("--algorithms {}: NCCL has algorithms of its own, which are 'native' here",
                  name_of(algorithm));
  for (const Algorithm algorithm : bench.algorithms)
    if (algorithm == Algorithm::library)
      throw Error("--algorithms library: these ranks share one host, where no library is between");
  for (const std::string& name : bench.operations) find_comm_operation(name);
  for (const int world : bench.worlds) {
    const std::int64_t most = bench.cluster ? bench.cluster->machines * bench.cluster->devices
                                            : std::int64_t{most_processes};
    if (world < 2 || world > most)
      throw Error("--worlds {}: a world has 2 to {} ranks here", world, most);
    std::vector<int> hosts;
    for (int rank = 0; rank < world; ++rank)
      hosts.push_back(bench.cluster ? rank / static_cast<int>(bench.cluster->devices) : 0);
    for (const Algorithm algorithm : bench.algorithms)
      if (is_program_of_messages(algorithm))
        if (const auto check_hosts = peer::find_algorithm(algorithm).check) check_hosts(hosts);
    for (const std::string& name : bench.operations)
      for (const std::int64_t size : bench.sizes)
        if (count_of(find_comm_operation(name), size, world) < 1)
          throw Error("--sizes {}: the array of {} among {} ranks has at least {} bytes", size,
                      name, world, find_comm_operation(name).in_parts ? 4 * world : 4);
  }
}

void run_comm_bench(const CommBench& bench, const Report& report) {
  for (const int world : bench.worlds)
    bench.cluster ? bench_simulation(bench, world, report) : bench_processes(bench, world, report);
}

}  // namespace ringside::tools::bench
