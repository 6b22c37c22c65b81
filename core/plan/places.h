// Where the ranks of a simulated run live in its cluster.
#pragma once

#include "core/plan/run_plan.h"
#include "core/sim/world.h"

namespace ringside {

/// Where a rank of a simulated run lives. Worker w lives on device w, machine by machine, and round
/// the cluster again where devices are CPUs with several cores. Dedicated servers live on the hosts
/// of the machines, one machine after the other.
sim::Place place_of(const RunPlan& plan, int rank);

/// Throws Error if the plan has more workers than its cluster has devices for.
void check_places(const RunPlan& plan);
/// Throws Error if the devices of the plan's cluster cannot compute products in the plan's
/// precision.
void check_products(const RunPlan& plan);

}  // namespace ringside
