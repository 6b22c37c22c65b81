// All ranks of a run in a simulated cluster.
#pragma once

#include <functional>
#include <vector>

#include "core/cluster/plan.h"
#include "core/observe/record.h"
#include "core/sim/world.h"
#include "core/trainer.h"

namespace ringside {

/// Where a rank of a simulated run lives: worker w on device w, machine by machine, round the
/// cluster where devices are CPUs with several cores; a dedicated server on a machine's host, one
/// machine after the other.
sim::Place place_of(const RunPlan& plan, int rank);

/// Throws Error if the plan has more workers than its cluster has devices for.
void check_places(const RunPlan& plan);
/// Throws Error if the devices of the plan's cluster compute no products in its precision.
void check_products(const RunPlan& plan);

/// Runs the ranks of a plan with a cluster as actors of one world, in this thread; blocks until
/// they have ended. Records by rank, with virtual times. `progress` hears of every worker's steps.
/// Throws the first error of a rank, with its number.
std::vector<RankRecord> simulate(const RunPlan& plan,
                                 const std::function<void(const Progress&)>& progress);

}  // namespace ringside
