// Violations: where a run is not what its definition says.
#pragma once

#include <string>
#include <vector>

#include "core/observe/run_record.h"

namespace ringside::tools::check {

/// The places in which a run is not what it must be, one sentence each; none for a right run.
using Violations = std::vector<std::string>;

/// Adds those of `more`.
void add(Violations& violations, Violations more);

/// Every replica must end with the bits of the definition's replica, and of workers that hold the
/// same parameters each must show that it does.
Violations wrong_parameters(const RunRecord& row, const RunRecord& definition);
/// The loss of every step must be the definition's: bit for bit, or, with `allowed` above 0, up to
/// that relative difference.
Violations wrong_losses(const RunRecord& row, const RunRecord& definition, double allowed = 0);
/// The evaluations must be the definition's, bit for bit.
Violations wrong_evaluations(const RunRecord& row, const RunRecord& definition);
/// A run cannot send less than its scheme has to.
Violations missing_traffic(const RunRecord& row);
/// Ranks that keep shards must keep all parameters between them.
Violations lost_parameters(const RunRecord& row);
/// What the run computes: parameters, losses and evaluations, bit for bit.
Violations differences(const RunRecord& row, const RunRecord& definition);
/// All of these together.
Violations violations(const RunRecord& row, const RunRecord& definition);

/// The bytes that the busiest rank sends in a step.
double busiest(const RunRecord& row);

}  // namespace ringside::tools::check
