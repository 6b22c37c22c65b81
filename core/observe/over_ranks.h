// Figures of a run that add up the records of its ranks.
#pragma once

#include <string>
#include <vector>

#include "core/observe/run_record.h"

namespace ringside {

/// The loss of every step, of the global batch. The shares of a step are added micro-batch by
/// micro-batch and rank by rank, so that the sums have the bits of `single` over the same
/// micro-batches. Where workers do different numbers of steps, some micro-batches of a late step
/// are missing: its sum is scaled as if the missing ones had the mean of the others.
std::vector<double> losses_of_steps(const RunPlan& plan, const std::vector<RankRecord>& ranks);

/// The evaluations of the run, made of shares in the same way.
std::vector<Evaluation> evaluations_of(const RunPlan& plan, const std::vector<RankRecord>& ranks);

/// RunRecord::held_out_over_time, for ranks that each evaluate at their own times. Begins when
/// every worker has evaluated once.
std::vector<Evaluation> held_out_over_time(const RunPlan& plan,
                                           const std::vector<RankRecord>& ranks);

/// Joins the parameter hashes of all workers: `hashes` gets one for each replica.
RunParameters parameters_at_end(const std::vector<RankRecord>& ranks,
                                std::vector<std::string>& hashes);

/// The longest standstill of a worker within a measured step, in seconds; 0 if there was none. Only
/// a single long step counts: a scheme that does more work in some steps has several long ones.
double stood_still_s(const RunPlan& plan, const std::vector<RankRecord>& ranks);

/// The staleness of the gradients of all servers together; none if no rank reports a staleness.
std::optional<RunStaleness> staleness_of(const std::vector<RankRecord>& ranks);

}  // namespace ringside
