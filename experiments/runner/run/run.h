// The execution of one run, from its plan to its record.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/launch/launch.h"
#include "core/observe/run_record.h"
#include "core/scheme/scheme.h"

namespace ringside::runner {

/// The starter of ranks on several hosts.
struct Agents {
  std::vector<RankHost*> hosts{};  // by RankHome::agent
  /// Makes the sidecar of a run on its hosts; null: none. May throw Error.
  std::function<std::unique_ptr<RunSidecar>(const RunPlan&)> sidecar =
      [](const RunPlan&) -> std::unique_ptr<RunSidecar> { return nullptr; };
  /// Places a run of which some agents are gone on those that are left, at a smaller world if need
  /// be. Throws Error that says why that cannot be. Null: no agent can be gone.
  std::function<RunPlan(const RunPlan&)> place_on_left{};
};

/// The settings for starting ranks, and the signal to stop.
struct RankStart {
  RankProgram program;  // this program, started as a rank
  std::function<bool()> interrupted;
  /// Takes the text that ranks write to standard output and error; must not block.
  std::function<void(const std::string& text)> on_output = [](const std::string&) {};
  Agents agents{};
};

struct RunOutcome {
  RunRecord row;
  bool interrupted = false;  // if true, the record has no meaning
  /// It was told to stop, and has written a checkpoint from which it can go on.
  bool stopped = false;
  FaultsConfig faults{};  // the plan's, with those noted that have struck
  /// Of a run that failed: the records of the collectives of every group that broke, a JSON list;
  /// else empty.
  std::string collectives{};
  /// Of a run on several hosts: the notes behind the ranks' names in its trace.
  std::vector<std::string> rank_notes{};
};

/// A step that all workers have finished.
struct Step {
  std::int64_t steps_done = 0;
  /// The loss of the global batch. Only for display: the workers' losses are added in the order in
  /// which they arrive, so the last bits of the sum vary.
  double loss = 0;
  double seconds = 0;  // of the slowest worker
  std::optional<LossValue> held_out;
};

/// Runs one plan in new processes, and blocks until they have ended. If the run fails, it is
/// started again as [faults] says (experiments/runner/run/going_on.h). If it fails for good,
/// nothing is thrown: the record has the cause.
RunOutcome run_plan(const RunPlan& plan, const RankStart& start,
                    const std::function<void(const Step&)>& on_step);

}  // namespace ringside::runner
