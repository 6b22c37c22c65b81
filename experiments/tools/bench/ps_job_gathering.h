// The connections of a job's processes with their scheduler.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/json_line.h"
#include "experiments/runner/hosts/pending_connections.h"
#include "experiments/tools/bench/ps_job.h"
#include "experiments/tools/bench/ps_job_store.h"

namespace ringside {

/// The number of digits of a ticket.
inline constexpr std::size_t ticket_size = 64;

/// Gives the processes of a job their ranks in order of arrival. A process sends {"join": {"role",
/// "worker", "workers", "servers"}}. Once all have joined, each gets its rank, the settings of the
/// bench, and a ticket that identifies the process's second connection. A connection that sends
/// something else, or nothing for a while, is dropped. If the job cannot begin, the processes that
/// have joined get {"ended": cause}.
class Gathering {
 public:
  /// All outlive this object.
  Gathering(const PsJob& job, const PsBench& bench, JobListener& listener,
            const PsJobReports& reports);

  /// The lines to all ranks, by rank. Blocks until all have joined. Throws Error that names the
  /// missing ones, and throws at once if a process does not fit, since the job would never be
  /// complete.
  std::vector<std::unique_ptr<JsonLine>> gather();
  /// The ranks' second connections, by rank, over which they get commands. Called after gather(),
  /// with the store of the lines; blocks until all have connected. Throws Error that names the
  /// missing ones, at once if a rank's line ends.
  std::vector<int> connect_ranks(const JobStore& store);

 private:
  struct Process {
    std::unique_ptr<JsonLine> line;
    std::optional<KeyHolder> holder;
  };
  /// A second connection that has not shown its ticket.
  struct Unknown {
    JobConnection connection;
    double since = 0;
    std::string said{};
  };

  void wait_for_all();
  std::vector<std::string> missing() const;
  /// Throws Error if the ranks' second connections cannot come, or do not.
  void check_connecting(const JobStore& store, double waited_s) const;
  void listen(PendingConnections& newcomers);
  void admit(PendingConnections& newcomers, AcceptedConnection& newcomer);
  /// Whether the connection has said enough, and so is no longer unknown.
  bool hear_ticket(Unknown& unknown);
  /// Throws Error if the process was told of another job, or has another's key.
  void check_fits(const nlohmann::json& join, PsRole role,
                  const std::optional<KeyHolder>& holder) const;
  /// Throws Error if the process has come twice, or one too many has come.
  std::size_t place_for(PsRole role, int asked) const;
  void accept_second();
  void drop_silent();

  const PsJob& job_;
  const PsBench& bench_;
  JobListener& listener_;
  Refusals refusals_;
  std::vector<std::string> names_, tickets_;
  std::vector<Process> joined_;
  std::vector<Unknown> unknown_;
  std::vector<int> second_;  // sockets by rank; -1: not yet
};

}  // namespace ringside
