// The device of each rank of a plan, and the environment in which the rank runs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/plan/run_plan.h"

namespace ringside::runner {

/// The identities of the devices of a kind that the process of a rank sees (DeviceRow::devices).
using DevicesOfRank =
    std::function<const std::vector<std::string>&(const std::string& kind, int rank)>;

/// Numbers the devices of kinds that have numbers (RankPlan::ordinal, RankHome::device): a rank
/// gets one of those that its process sees, which the fewest ranks of its host have got so far, and
/// of these the first. Throws what `seen` throws.
void number_devices(RunPlan& plan, const DevicesOfRank& seen);

/// Sets the environments that the ranks' kinds of devices ask for (RankPlan::environment), once
/// devices and homes are known.
void set_environments(RunPlan& plan);

}  // namespace ringside::runner
