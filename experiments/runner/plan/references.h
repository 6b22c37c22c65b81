// The reference runs, which other runs of a comparison must equal.
#pragma once

#include <vector>

#include "experiments/runner/config/config.h"

namespace ringside::runner {

/// A run that is asked for, and the configuration that it was planned from.
struct AskedRun {
  RunPlan plan;
  const ExperimentConfig* config = nullptr;
};

/// Plans the definition of a run whose scheme brings one (has_own_definition()): one rank that
/// stands for all workers of the run, and must end with the bits of the run. It is at no point of a
/// sweep. Its id has no seed and no repeat.
RunPlan plan_definition(const RunPlan& run);

/// Plans the run of `single` over the micro-batches of all ranks of the run, with its learning rate
/// and its groups of batch norms. The id of the plan has no seed and no repeat yet.
RunPlan plan_single_for(const AskedRun& asked);

/// The references that are needed and that are not among the runs of `single` in `asked`: for every
/// run the one that it must equal; and for a run with an order of sums of its own also one of
/// `single`, which its definition must equal to rounding. Runs share references. A reference's
/// settings are those that all its runs have in common, without options of schemes; its label shows
/// them. Runs that compute nothing need no reference, and runs without a definition have none.
std::vector<RunPlan> missing_references(const std::vector<AskedRun>& asked);

}  // namespace ringside::runner
