// The connections of a job's processes with their scheduler.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/launch/json_line.h"
#include "experiments/runner/hosts/pending_connections.h"
#include "experiments/tools/bench/ps_job.h"
#include "experiments/tools/bench/ps_job_store.h"

namespace ringside::tools::bench {

/// Gives the processes of a job their ranks in order of arrival. A process sends {"join": {"role",
/// "worker", "workers", "servers"}}. Once all have joined, each gets its rank, the settings of the
/// bench, and a ticket. It connects a second time and sends {"ticket"}; after the answer
/// {"welcome"} that connection belongs to the bench. A connection that sends something else, or
/// nothing for a while, is dropped. If the job cannot begin, the processes that have joined get
/// {"ended": cause}.
class Gathering {
 public:
  /// All outlive this object.
  Gathering(const PsJob& job, const PsBench& bench, ps::StreamListener& listener,
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
    std::optional<ps::KeyHolder> holder;
  };
  void wait_for_all();
  std::vector<std::string> missing() const;
  /// Throws Error if the ranks' second connections cannot come, or do not.
  void check_connecting(const JobStore& store, double waited_s) const;
  void listen(runner::PendingConnections& newcomers);
  void admit(runner::PendingConnections& newcomers, runner::AcceptedConnection& newcomer);
  void admit_second(const runner::PendingConnections& newcomers,
                    runner::AcceptedConnection& newcomer);
  /// Throws Error if the process was told of another job, or has another's key.
  void check_fits(const nlohmann::json& join, PsRole role,
                  const std::optional<ps::KeyHolder>& holder) const;
  /// Throws Error if the process has come twice, or one too many has come.
  std::size_t place_for(PsRole role, int asked) const;

  const PsJob& job_;
  const PsBench& bench_;
  ps::StreamListener& listener_;
  runner::Refusals refusals_;
  std::vector<std::string> names_, tickets_;
  std::vector<Process> joined_;  // by rank
};

}  // namespace ringside::tools::bench
