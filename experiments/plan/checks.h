// What is checked before a run is planned, and before a planned run is made. A check that fails
// throws Error, which names the key, its value and a value that would do.
#pragma once

#include <cstdint>
#include <string_view>

#include "experiments/config/config.h"
#include "experiments/registry/registry.h"

namespace ringside {

/// The most ranks of a run, workers and servers together.
inline constexpr std::int64_t most_ranks = 4096;

void require_at_least(std::string_view key, std::int64_t value, std::int64_t least);
/// `least` and `most` themselves are allowed values.
void require_between(std::string_view key, std::int64_t value, std::int64_t least,
                     std::int64_t most);

/// Checks what all runs of an experiment have in common: name, train, data, model, device and
/// optimizer.
void check_config(const ExperimentConfig& config);
/// Checks the lists and the numbers of [compare].
void check_compare(const CompareConfig& compare);
void check_world(std::string_view key, std::int64_t world);

/// Makes the device, the model and the data of the plan once in this process and drops them again.
/// So an impossible shape or a missing file is reported in one line before any run is made.
void check_inputs(const RunPlan& plan);

}  // namespace ringside
