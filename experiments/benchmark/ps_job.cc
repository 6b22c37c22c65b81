// The scheduler of a job.
#include "experiments/benchmark/ps_job.h"

#include <utility>

#include "experiments/benchmark/ps_bounds.h"
#include "experiments/benchmark/ps_contest.h"
#include "experiments/benchmark/ps_job_gathering.h"
#include "experiments/benchmark/ps_job_store.h"
#include "experiments/benchmark/ps_way.h"

namespace ringside {
namespace {

/// Processes that somebody else has started, and has to look after.
class OthersProcesses : public RankProcesses {
 public:
  std::string cause_of_end(int) override { return "its connection is closed"; }
};

}  // namespace

void lead_ps_job(const PsJob& job, const PsBench& bench, const PsJobReports& reports) {
  const Patience patience{1.1 * bench.timeout_s, bench.interrupted};
  const auto bounds = fork_bounds(patience);
  JobListener listener(job, bench.timeout_s);
  reports.on_listening(listener.port());
  Gathering gathering(job, bench, listener, reports);
  const std::vector<std::string> names =
      names_of_ranks({.workers = job.workers, .servers = job.servers});
  JobStore store(gathering.gather(), names, reports.on_refused);
  RankGroup ranks("bench ps", gathering.connect_ranks(store), std::make_unique<OthersProcesses>(),
                  patience, names);
  listener.close();
  run_ps_contest(bench, job.workers, job.servers, ranks, *bounds, reports.on_row);
  store.end({bench.timeout_s, bench.interrupted});
}

}  // namespace ringside
