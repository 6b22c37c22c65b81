#include "experiments/tools/bench/ps_bench.h"

#include "core/base/error.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/tools/bench/forked_ranks.h"
#include "experiments/tools/bench/ps_bounds.h"
#include "experiments/tools/bench/ps_contest.h"
#include "experiments/tools/bench/ps_rank.h"

namespace ringside::tools::bench {
namespace {

constexpr std::int64_t element = sizeof(float);
constexpr std::int64_t least_partition = 1 << 10, most_partition = 1 << 30;
/// What the ranks of one way and size leave in their store, beside an endpoint of each server: the
/// run's token, and its secret or the place of its shared memory.
constexpr std::int64_t entries_beside_endpoints = 2;

/// The processes of one number of workers and servers.
void bench_one(const PsBench& bench, int workers, int servers,
               const std::function<void(const PsRow&)>& report) {
  PsRoles roles{.workers = workers,
                .servers = servers,
                .placement = bench.placement,
                .threads = bench.threads,
                .timeout_s = bench.timeout_s,
                .partition_bytes = bench.partition_bytes,
                .reach = {.keys = bench.keys}};
  ForkedRanks forked{.name = "bench ps",
                     .world = roles.ranks(),
                     .ranks = names_of_ranks(roles),
                     .own_cores = false};  // as in a run, whose ranks have threads for messages
  const auto shared = make_shared_ranks();
  // A tenth longer than ranks wait for each other, since they know who is missing.
  const Patience patience{1.1 * bench.timeout_s, bench.interrupted};
  const auto ranks = fork_ranks(forked, patience, [&](int socket, int rank) {
    roles.rank = rank;
    SharedStore store(*shared);
    PsRank own(roles, runner::find_device("cpu").links, store,
               Meeting(*shared, workers, bench.timeout_s));
    ringside::tools::bench::serve(socket, rank, own);
  });
  const auto bounds = fork_bounds(patience);
  run_ps_contest(bench, workers, servers, *ranks, *bounds, report);
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
    const auto connections =
        std::ssize(bench.sizes) * std::ssize(bench.transports) * std::ssize(bench.consistencies);
    if (connections * (servers + entries_beside_endpoints) > most_entries)
      throw Error(
          "{} sizes, {} transports and {} consistencies with {} servers: more than the {} entries "
          "that the ranks' store has; measure fewer at once",
          bench.sizes.size(), bench.transports.size(), bench.consistencies.size(), servers,
          most_entries);
    for (const int workers : bench.workers) {
      if (bench.placement == ps::Placement::colocated && servers > workers)
        throw Error(
            "--servers {}: with --placement colocated each is in the process of one of {} "
            "worker{}; "
            "take fewer servers or more workers",
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
