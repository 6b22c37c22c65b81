// The search for the best way of training: it prunes candidates that cannot fit or cannot win, and
// simulates the others.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/observe/run_record.h"
#include "experiments/runner/run/parallel_simulations.h"
#include "experiments/runner/run/rehearsal.h"
#include "experiments/tools/advise/considered.h"

namespace ringside::tools::advise {

struct Advice {
  std::vector<Considered> ranked{};  // those that were simulated, the advised one first
  std::vector<Considered> others{};
  /// The interval of the advised step that follows from the cluster's stated errors; none if the
  /// cluster does not state them.
  std::optional<StepBounds> bounds{};
  bool interrupted = false;
};

/// Simulates candidates with `simulate` until none is left that may win, or until Question::seconds
/// are over (as `now` counts them); `rehearse` counts the memory of meshes. Calls `say` for each
/// simulated candidate. Throws Error if no candidate can be planned.
Advice search(const Question& question, const runner::Simulate& simulate,
              const runner::Rehearse& rehearse, const std::function<double()>& now,
              const std::function<void(const Considered&)>& say);

}  // namespace ringside::tools::advise
