// The connections of a job's processes with their scheduler.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/json_line.h"
#include "experiments/runner/hosts/pending_connections.h"
#include "experiments/tools/bench/ps_job.h"

namespace ringside::tools::bench {

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

}  // namespace ringside::tools::bench
