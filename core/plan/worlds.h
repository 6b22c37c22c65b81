// The worlds of a run whose workers come and go.
#pragma once

#include "core/plan/run_plan.h"

namespace ringside {

/// Whether all ranks form the run's worlds anew when workers come and go.
inline bool is_elastic(const RunPlan& plan) { return plan.most_world > 0; }

/// Whether workers come and go while nobody else waits or starts again: of workers that do not wait
/// for each other, one that goes leaves its seat (its number, and its share of every batch), which
/// a new process may take (core/launch/seats.h).
inline bool seats_are_taken_again(const RunPlan& plan) {
  return plan.promise == Promise::replayed && plan.defines == 0 && !plan.cluster &&
         plan.expendable > 0 && plan.faults.least_world > 0 && plan.faults.least_world < plan.world;
}

/// The number of this process in its worker's seat: 0 for the first one, which is there from the
/// beginning.
inline std::int64_t process_in_seat(const RunPlan& plan) {
  return is_elastic(plan) ? 0 : plan.generation;
}

/// The present plan of an elastic run at one of RunPlan::worlds: what depends on the world is that
/// of the plan there, and all else stays. Throws Error for another world.
RunPlan at_world(const RunPlan& plan, int world);

}  // namespace ringside
