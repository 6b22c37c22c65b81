// Where the ranks of a simulated run live in its cluster.
#pragma once

#include "core/plan/run_plan.h"
#include "core/sim/world.h"

namespace ringside {

/// Where a rank of a simulated run lives: worker w on device w, machine by machine, round the
/// cluster where devices are CPUs with several cores; a dedicated server on a machine's host, one
/// machine after the other.
sim::Place place_of(const RunPlan& plan, int rank);

/// Throws Error if the plan has more workers than its cluster has devices for.
void check_places(const RunPlan& plan);
/// Throws Error if the devices of the plan's cluster compute no products in its precision.
void check_products(const RunPlan& plan);

}  // namespace ringside
