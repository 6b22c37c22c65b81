#include "experiments/tools/bench/ps_bench.h"

#include "core/base/error.h"
#include "experiments/tools/bench/own_processes.h"
#include "experiments/tools/bench/ps_bounds.h"
#include "experiments/tools/bench/ps_contest.h"
#include "experiments/tools/bench/ps_way.h"

namespace ringside::tools::bench {
namespace {

constexpr std::int64_t element = sizeof(float);
constexpr std::int64_t least_partition = 1 << 10, most_partition = 1 << 30;
/// The processes of one number of workers and servers.
void bench_one(const PsBench& bench, int workers, int servers,
               const std::function<void(const PsRow&)>& report) {
  const nlohmann::json work = {{"ps",
                                {{"workers", workers},
                                 {"servers", servers},
                                 {"placement", name_of(bench.placement)},
                                 {"threads", bench.threads},
                                 {"partition_bytes", bench.partition_bytes},
                                 {"keys", bench.keys}}}};
  std::vector<OwnProcess> processes;
  for (const std::string& name :
       names_of_ranks({.workers = workers, .servers = servers, .placement = bench.placement}))
    processes.push_back({.work = work, .name = name});
  // A tenth longer than ranks wait for each other, since they know who is missing.
  const Patience patience{1.1 * bench.timeout_s, bench.interrupted};
  const auto ranks = start_ranks(
      "bench ps", bench.program,
      plan_of_ranks({}, static_cast<int>(processes.size()), bench.timeout_s), processes, patience);
  const auto bounds = start_bounds(bench.program, bench.timeout_s, patience);
  run_ps_contest(bench, workers, servers, *ranks, *bounds, report);
  bounds->close();
  ranks->close();
}

}  // namespace

void check(const PsBench& bench) {
  for (const auto transport : bench.transports)
    if (!bench.keys.empty() && transport != ps::TransportKind::tcp)
      throw Error("--transports {}: only tcp has keys; leave --transports or --keys out",
                  name_of(transport));
  if (bench.partition_bytes < least_partition || bench.partition_bytes > most_partition)
    throw Error("--partition {}: a part has {} to {} bytes", bench.partition_bytes, least_partition,
                most_partition);
  const auto check_number = [](const char* option, int number) {
    if (number < 1 || number > most_processes)
      throw Error("{} {}: there are 1 to {} here", option, number, most_processes);
  };
  if (bench.placement == ps::Placement::mixed)
    throw Error(
        "--placement mixed: the bench has servers of one kind; take dedicated or colocated");
  for (const int workers : bench.workers) check_number("--workers", workers);
  for (const int servers : bench.servers) {
    check_number("--servers", servers);
    for (const int workers : bench.workers) {
      if (bench.placement == ps::Placement::colocated && servers > workers)
        throw Error(
            "--servers {}: with --placement colocated each is in the process of one of {} "
            "worker{}; take fewer servers or more workers",
            servers, workers, workers == 1 ? "" : "s");
      if (PsRoles{.workers = workers, .servers = servers, .placement = bench.placement}.ranks() >
          most_processes)
        throw Error("--workers {} with --servers {}: more than {} processes", workers, servers,
                    most_processes);
    }
    for (const std::int64_t size : bench.sizes)
      if (size < element * servers)
        throw Error(
            "--sizes {}: an array for {} server{} has at least {} bytes, an fp32 element each",
            size, servers, servers == 1 ? "" : "s", element * servers);
  }
}

void run_ps_bench(const PsBench& bench, const std::function<void(const PsRow&)>& report) {
  for (const int workers : bench.workers)
    for (const int servers : bench.servers) bench_one(bench, workers, servers, report);
}

}  // namespace ringside::tools::bench
