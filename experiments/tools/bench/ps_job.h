// A job of `ringside bench ps`: workers, servers and their scheduler, started by hand or by a
// launcher that sets the variables of ps-lite.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/named_enum.h"
#include "experiments/runner/hosts/rendezvous.h"
#include "experiments/tools/bench/ps_bench.h"

namespace ringside::tools::bench {

/// The scheduler leads the bench, and serves the store through which the others find each other.
enum class PsRole : std::uint8_t { worker, server, scheduler };
inline constexpr std::string_view ps_role_names[] = {"worker", "server", "scheduler"};
constexpr EnumNames names_of(PsRole) { return ps_role_names; }

/// The settings of one process of a job.
struct PsJob {
  PsRole role = PsRole::scheduler;
  std::string address = "127.0.0.1";  // of the scheduler, as four numbers
  int port = 0;                       // of the scheduler; its own may be 0: any free port
  int workers = 1, servers = 1;
  int worker = -1;        // the worker's number; -1: the next that is free
  std::string program{};  // see RankContext::program
  /// The address at which this process listens, the one to which others connect, and the folder of
  /// the job's keys. Without keys all processes are of one user of one host. Without an address a
  /// server listens on the one by which it reaches the scheduler.
  ps::Reach reach{};
};

/// The rendezvous of the job's processes.
runner::Rendezvous rendezvous_of(const PsJob& job);

/// Throws Error for an address that other hosts reach without keys, and for numbers that no job can
/// have.
void check(const PsJob& job);

/// The most files that the connections of a job's scheduler take.
std::int64_t open_files_of_scheduler(const PsJob& job);

/// Callbacks while a job is led; each gets a line of text.
struct PsJobReports {
  std::function<void(int port)> on_listening;
  /// A connection is refused or dropped.
  std::function<void(const std::string& cause)> on_refused;
  std::function<void(const PsRow&)> on_row;
};

/// Leads a job: waits for its workers and servers, measures them as run_ps_bench() does, and lets
/// them end. They end too if this throws. With keys, both ends of every connection prove that they
/// have theirs; without, only processes of this user are taken in. `bench` has passed check(), with
/// the job's numbers of workers and servers. Throws Error that names a process that is missing,
/// fails or ends.
void lead_ps_job(const PsJob& job, const PsBench& bench, const PsJobReports& reports);

/// Joins a job as a worker or a server, and does what its scheduler says until the scheduler ends
/// the job; then ends this process: with status 0 in good order, else 1. (A server that returned
/// would wait for workers that may be gone.) `say` gets what the user should know. Throws Error if
/// no scheduler takes it in within `timeout_s`.
[[noreturn]] void join_ps_job(const PsJob& job, double timeout_s,
                              const std::function<void(const std::string&)>& say);

}  // namespace ringside::tools::bench
