// Makes the plan of one run.
#pragma once

#include <string_view>

#include "experiments/config/config.h"
#include "experiments/registry/registry.h"

namespace ringside {

/// The scheme that all others are compared with.
inline constexpr std::string_view reference_scheme = "single";

/// Plans a run of the scheme, with the label that it has without a case. Throws Error for whatever
/// cannot be run; the error names the key, its value and a value that would do.
RunPlan plan_run(const ExperimentConfig& config, const SchemeRow& row, int world, int repeat);

}  // namespace ringside
