// The scheduler of a job.
#include "experiments/tools/bench/ps_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/json_line.h"
#include "core/base/seconds_now.h"
#include "core/base/waiting_time.h"
#include "experiments/runner/hosts/pending_connections.h"
#include "experiments/tools/bench/connected_ranks.h"
#include "experiments/tools/bench/ps_bounds.h"
#include "experiments/tools/bench/ps_contest.h"
#include "experiments/tools/bench/ps_way.h"
#include "ps/transport/zmq/keys.h"

namespace ringside::tools::bench {
namespace {

constexpr double nap_s = 0.05;

/// Gives the processes of a job their ranks in order of arrival. A process sends {"join": {"role",
/// "worker", "workers", "servers"}}. Once all have joined, each gets its rank and the settings of
/// the bench. A connection that sends something else, or nothing for a while, is dropped. If the
/// job cannot begin, the processes that have joined get {"ended": cause}.
class Gathering {
 public:
  /// All outlive this object.
  Gathering(const PsJob& job, const PsBench& bench, ps::StreamListener& listener,
            const PsJobReports& reports);

  /// The lines to all ranks, by rank. Blocks until all have joined. Throws Error that names the
  /// missing ones, and throws at once if a process does not fit, since the job would never be
  /// complete.
  std::vector<std::unique_ptr<JsonLine>> gather();

 private:
  struct Process {
    std::unique_ptr<JsonLine> line;
    std::optional<ps::KeyHolder> holder;
  };

  void wait_for_all();
  std::vector<std::string> missing() const;
  void listen(runner::PendingConnections& newcomers);
  void admit(runner::PendingConnections& newcomers, runner::AcceptedConnection& newcomer);
  /// Throws Error if the process was told of another job, or has another's key.
  void check_fits(const nlohmann::json& join, PsRole role,
                  const std::optional<ps::KeyHolder>& holder) const;
  /// Throws Error if the process has come twice, or one too many has come.
  std::size_t place_for(PsRole role, int asked) const;

  const PsJob& job_;
  const PsBench& bench_;
  ps::StreamListener& listener_;
  runner::Refusals refusals_;
  std::vector<std::string> names_;
  std::vector<Process> joined_;
};

Gathering::Gathering(const PsJob& job, const PsBench& bench, ps::StreamListener& listener,
                     const PsJobReports& reports)
    : job_(job), bench_(bench), listener_(listener), refusals_(reports.on_refused) {
  names_ = names_of_ranks({.workers = job.workers, .servers = job.servers});
  joined_.resize(names_.size());
}

std::vector<std::unique_ptr<JsonLine>> Gathering::gather() {
  try {
    wait_for_all();
  } catch (const Error& error) {
    for (const Process& process : joined_)
      if (process.line) process.line->send({{"ended", error.what()}});
    throw;
  }
  std::vector<std::unique_ptr<JsonLine>> lines;
  for (std::size_t rank = 0; rank < joined_.size(); ++rank) {
    joined_[rank].line->send({{"rank", rank},
                              {"threads", bench_.threads},
                              {"timeout_s", bench_.timeout_s},
                              {"partition_bytes", bench_.partition_bytes}});
    lines.push_back(std::move(joined_[rank].line));
  }
  return lines;
}

void Gathering::wait_for_all() {
  runner::PendingConnections newcomers(listener_, refusals_);
  WaitingTime waited(seconds_now(), nap_s);
  while (!missing().empty()) {
    if (bench_.interrupted()) throw Error("interrupted");
    if (waited.seconds(seconds_now()) > bench_.timeout_s)
      throw Error("bench ps: {} did not come to {}:{} within {} s (--timeout)",
                  fmt::join(missing(), ", "), job_.address, listener_.port(), bench_.timeout_s);
    listen(newcomers);
  }
}

std::vector<std::string> Gathering::missing() const {
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < joined_.size(); ++rank)
    if (!joined_[rank].line) names.push_back(names_[rank]);
  return names;
}

void Gathering::listen(runner::PendingConnections& newcomers) {
  std::vector<int> files = newcomers.files();
  const std::size_t first = files.size();
  for (const Process& process : joined_)
    files.push_back(process.line ? process.line->socket() : -1);
  std::vector<bool> ready = runner::poll_files(files);
  // Whoever has a place says nothing more, unless it ends: then another may have the place.
  for (std::size_t rank = 0; rank < joined_.size(); ++rank)
    if (ready[first + rank]) joined_[rank] = {};
  ready.resize(first);
  for (runner::AcceptedConnection& newcomer : newcomers.hear(ready)) admit(newcomers, newcomer);
}

void Gathering::admit(runner::PendingConnections& newcomers, runner::AcceptedConnection& newcomer) {
  try {
    const nlohmann::json& join = newcomer.said->at("join");
    const auto role = value_named<PsRole>(join.at("role").get<std::string>());
    if (!role || *role == PsRole::scheduler)
      return newcomers.refuse(newcomer, "a worker or a server may join, nobody else");
    check_fits(join, *role, newcomer.holder);
    try {
      const std::size_t place = place_for(*role, join.at("worker").get<int>());
      joined_[place] = {std::move(newcomer.line), newcomer.holder};
    } catch (const Error& error) {  // the one that was there before may still end
      newcomers.refuse(newcomer, error.what());
    }
  } catch (const nlohmann::json::exception&) {
    newcomers.refuse(newcomer, "its line does not say who it is");
  } catch (const Error& error) {
    newcomer.line->send({{"refused", error.what()}});
    throw Error("bench ps: a process that does not fit ends the job: {}", error.what());
  }
}

void Gathering::check_fits(const nlohmann::json& join, PsRole role,
                           const std::optional<ps::KeyHolder>& holder) const {
  const int workers = join.at("workers").get<int>(), servers = join.at("servers").get<int>();
  if (workers != job_.workers || servers != job_.servers)
    throw Error(
        "the job has {} workers and {} servers (DMLC_NUM_WORKER, DMLC_NUM_SERVER), but the process "
        "was told of {} and {}",
        job_.workers, job_.servers, workers, servers);
  const bool works = role == PsRole::worker;
  const int asked = join.at("worker").get<int>();
  if (holder && holder->server == works)
    throw Error("a {} says that it is a {}: its key is not one of a {}",
                holder->server ? "server" : "worker", name_of(role), name_of(role));
  if (holder && works && holder->worker != asked)
    throw Error("worker {} says that it is worker {}: its key is the one of worker {}",
                holder->worker, asked, holder->worker);
}

std::size_t Gathering::place_for(PsRole role, int asked) const {
  const bool works = role == PsRole::worker;
  const auto w = static_cast<std::size_t>(job_.workers);
  if (works && asked >= 0 && asked < job_.workers) {
    if (joined_[static_cast<std::size_t>(asked)].line)
      throw Error("there is a worker {} (DMLC_WORKER_ID) already", asked);
    return static_cast<std::size_t>(asked);
  }
  for (std::size_t rank = works ? 0 : w; rank < (works ? w : joined_.size()); ++rank)
    if (!joined_[rank].line) return rank;
  throw Error("the job has all its {}s", name_of(role));
}

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
