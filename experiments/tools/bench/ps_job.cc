// The scheduler of a job.
#include "experiments/tools/bench/ps_job.h"

#include <fmt/ranges.h>

#include <utility>

#include "core/base/error.h"
#include "experiments/tools/bench/connected_ranks.h"
#include "experiments/tools/bench/ps_bounds.h"
#include "experiments/tools/bench/ps_contest.h"
#include "experiments/tools/bench/ps_job_gathering.h"
#include "experiments/tools/bench/ps_way.h"
#include "ps/transport/zmq/keys.h"

namespace ringside::tools::bench {
namespace {

/// What the ranks of a job may leave in its store. Every size, way and server of a bench takes a
/// few dozen bytes.
constexpr StoreLimits limits_of_jobs{.bytes = 64 << 20, .questions = 1 << 20};

int most_streams(const PsJob& job) {
  return job.workers + job.servers + static_cast<int>(runner::most_unknown);
}

}  // namespace

runner::Rendezvous rendezvous_of(const PsJob& job) {
  return {
      .address = job.address,
      .port = job.port,
      .keys = job.reach.keys,
      .key = job.role == PsRole::worker && job.worker >= 0 ? ps::worker_key(job.worker)
                                                           : std::string(ps::server_key),
  };
}

void check(const PsJob& job) {
  const runner::Rendezvous rendezvous = rendezvous_of(job);
  const bool keyed = !rendezvous.keys.empty();
  runner::check_address(rendezvous.address_option, rendezvous.address, keyed);
  if (!job.reach.address.empty()) runner::check_address("DMLC_NODE_HOST", job.reach.address, keyed);
  const auto within = [](const char* variable, int value, int least, int most) {
    if (value < least || value > most)
      throw Error("{} = {} must lie between {} and {}", variable, value, least, most);
  };
  within("DMLC_PS_ROOT_PORT", job.port, job.role == PsRole::scheduler ? 0 : 1, 65535);
  within("DMLC_NUM_WORKER", job.workers, 1, most_processes);
  within("DMLC_NUM_SERVER", job.servers, 1, most_processes);
  within("DMLC_WORKER_ID", job.worker, -1, job.workers - 1);
  if (!keyed) return;
  if (job.role == PsRole::worker && job.worker < 0)
    throw Error("--keys: DMLC_WORKER_ID is not set, and every worker has a key of its own");
  static_cast<void>(ps::read_key_pair(rendezvous.keys, rendezvous.key));
  static_cast<void>(ps::read_public_key(rendezvous.keys, ps::server_key));
}

std::int64_t open_files_of_scheduler(const PsJob& job) {
  constexpr std::int64_t of_a_stream = 3;  // with keys: ZeroMQ's socket and both ends of the local
  return (job.reach.keys.empty() ? 1 : of_a_stream) * most_streams(job);
}

void lead_ps_job(const PsJob& job, const PsBench& bench, const PsJobReports& reports) {
  const Patience patience{1.1 * bench.timeout_s, bench.interrupted};
  const auto bounds = start_bounds(bench.program, bench.timeout_s, patience);
  const auto listener = runner::listen_for_job(rendezvous_of(job), job.reach.address, job.workers,
                                               most_streams(job), bench.timeout_s);
  reports.on_listening(listener->port());
  Gathering gathering(job, bench, *listener, reports);
  const std::vector<std::string> names =
      names_of_ranks({.workers = job.workers, .servers = job.servers});
  auto lines = gathering.gather();
  listener->close();
  RankGroup ranks("bench ps",
                  std::make_unique<ConnectedRanks>(std::move(lines), names, reports.on_refused),
                  job.workers + job.servers, patience, names, limits_of_jobs);
  run_ps_contest(bench, job.workers, job.servers, ranks, *bounds, reports.on_row);
  bounds->close();
  if (const auto left = ranks.close(bench.timeout_s); !left.empty())
    reports.on_refused(fmt::format("{} did not hear that the job is over", fmt::join(left, ", ")));
}

}  // namespace ringside::tools::bench
