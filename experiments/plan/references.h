// The runs that other runs of a comparison must equal.
#pragma once

#include <optional>
#include <vector>

#include "experiments/config/config.h"

namespace ringside {

/// A run that is asked for, and the configuration that it was planned from.
struct AskedRun {
  RunPlan plan;
  const ExperimentConfig* config = nullptr;
};

/// Plans the definition of a run whose scheme has an algorithm of its own: one rank that stands for
/// all workers of the run, and must end with the bits of the run. It is at no point of a sweep. Its
/// id has no seed and no repeat.
RunPlan plan_definition(const RunPlan& run);

/// Plans the run that `asked` must equal: plan_definition() for a scheme with an algorithm of its
/// own, else `single` over the micro-batches of all its ranks, with its learning rate. Ranks that
/// share batch norms become one replica with a larger micro-batch. The id of the plan has no seed
/// and no repeat yet. Returns nothing for a run that computes nothing.
std::optional<RunPlan> reference_for(const AskedRun& asked);

/// The references that are needed and that are not among the runs of `single` in `asked`. Runs that
/// must equal the same reference share one. A reference's settings are those that all its runs
/// have in common, without options of schemes; its label shows them.
std::vector<RunPlan> missing_references(const std::vector<AskedRun>& asked);

}  // namespace ringside
