// The meshes that `advise` considers, fitted to the memory of devices.
#pragma once

#include <optional>
#include <vector>

#include "experiments/runner/run/parallel_simulations.h"
#include "experiments/runner/run/rehearsal.h"
#include "experiments/tools/advise/considered.h"

namespace ringside::tools::advise {

/// Every family of mesh_families_of() at the question's worlds, in its precisions, with and without
/// recomputation. Those whose rehearsals fit have the number of micro-batches with which they are
/// fastest, of 1, 2 and 4 samples each, and their bound (ReplicaProfile::step_ms()), unless that
/// was not found out within half of Question::seconds; the others the reason why they do not fit.
/// Simulates replicas of those that fit; blocks. Returns nothing if the user interrupts. Throws
/// Error if a simulation fails.
std::optional<std::vector<Considered>> fitted_meshes(const Question& question,
                                                     const runner::Simulate& simulate,
                                                     const runner::Rehearse& rehearse);

}  // namespace ringside::tools::advise
