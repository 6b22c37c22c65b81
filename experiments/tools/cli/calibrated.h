// The measurements of this machine that `ringside calibrate` wrote, found for runs that use them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan/run_plan.h"
#include "experiments/runner/registry/calibrated_machine.h"

namespace ringside::runner {
class Job;
}

namespace ringside::tools::cli {

/// This machine, or the hosts of the job, as `ringside calibrate` measured them; none if no such
/// measurement is in the folder of results, or if all ranks are simulated. If it is one of another
/// machine, standard error gets a line that begins with `without`. Throws Error if device.cluster
/// names a file that cannot be used.
std::optional<runner::CalibratedMachine> calibrated_machine(const std::vector<RunPlan>& runs,
                                                            const std::string& results,
                                                            std::string_view without,
                                                            const runner::Job* job = nullptr);

/// Whether stages of real devices should be even by time, for which measured times are better than
/// numbers of operations.
bool balances_by_measured_time(const std::vector<RunPlan>& runs);

}  // namespace ringside::tools::cli
