#include "experiments/runner/run/parallel_simulations.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "core/base/seconds_now.h"

namespace ringside::runner {

Simulate parallel_simulations(const RankStart& start, int processes) {
  return [start, processes](const std::vector<RunPlan>& plans, double seconds) {
    std::vector<RunOutcome> outcomes(plans.size());
    std::atomic<std::size_t> next = 0;
    const double end = seconds_now() + seconds;
    RankStart limited = start;
    std::mutex output;
    limited.on_output = [&](const std::string& text) {
      const std::lock_guard lock(output);
      start.on_output(text);
    };
    limited.interrupted = [&] { return start.interrupted() || seconds_now() > end; };
    const auto work = [&] {
      for (std::size_t i = next++; i < plans.size(); i = next++) {
        outcomes[i] = run_plan(plans[i], limited, [](const Step&) {});
        if (!outcomes[i].interrupted || start.interrupted()) continue;
        outcomes[i].interrupted = false;
        outcomes[i].row.status = "failed";
        outcomes[i].row.error = out_of_time;
      }
    };
    const std::size_t threads =
        std::min(plans.size(), static_cast<std::size_t>(std::max(processes, 1)));
    std::vector<std::jthread> others;
    // A process ends with the thread that started it: threads wait for theirs.
    for (std::size_t i = 1; i < threads; ++i) others.emplace_back(work);
    work();
    others.clear();
    return outcomes;
  };
}

}  // namespace ringside::runner
