// One run, from its plan to its row.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/launch/launch.h"
#include "core/observe/row.h"
#include "core/scheme/scheme.h"

namespace ringside {

/// How ranks are started, and when to stop.
struct RankStart {
  RankProgram program;  // this very program, as a rank
  std::function<bool()> interrupted;
};

struct RunOutcome {
  Row row;
  bool interrupted = false;  // then the row says nothing
};

/// A step that all workers have done.
struct Step {
  std::int64_t steps_done = 0;
  double loss = 0;     // of the global batch; added up in the order of arrival, for display
  double seconds = 0;  // of the slowest worker
  std::optional<LossValue> held_out;
};

/// Runs one plan in fresh processes; blocks until they have ended. A run that fails is a row that
/// says so.
RunOutcome run_plan(const RunPlan& plan, const RankStart& start,
                    const std::function<void(const Step&)>& on_step);

}  // namespace ringside
