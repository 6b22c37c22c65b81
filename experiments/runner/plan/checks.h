// Checks before a run is planned, and before a planned run is made. A check that fails throws Error
// with the key, its value, and a value that is valid.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/runner/config/config.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::runner {

/// The most ranks of a run, workers and servers together.
inline constexpr std::int64_t most_ranks = 4096;
/// The most samples of a step: a batch is held in memory as a whole.
inline constexpr std::int64_t most_samples = 1 << 24;

/// `least` and `most` themselves are allowed values.
void require_between(std::string_view key, std::int64_t value, std::int64_t least,
                     std::int64_t most);

/// Checks the parts that all runs of a configuration share: name, train, data, model, device, sim
/// and optimizer.
void check_config(const ExperimentConfig& config);
/// Checks that a folder may have this name.
void check_name(const std::string& name);
/// Checks the lists and the numbers of [compare].
void check_compare(const Experiment& experiment);
/// Checks that runs of this configuration are evaluated if compare.target_loss is set.
void check_target(const ExperimentConfig& config);
void check_world(std::string_view key, std::int64_t world);
/// Checks a list of worlds; `key` names it.
void check_worlds(std::string_view key, const std::vector<std::int64_t>& worlds);

/// Makes the device, the model and the data of the plan once in this process and drops them again.
/// So an impossible shape or a missing file is reported in one line before any run is made.
void check_inputs(const RunPlan& plan);
/// Does so for all plans: every model is made once on each of its devices, and all data are read
/// once. Also checks the memory of runs on this host's processor (check_memory()).
void check_inputs(const std::vector<RunPlan>& plans);

/// Memory that ranks may have together, and its owner, for errors: "this machine".
struct MemoryLimit {
  double bytes = 0;
  std::string owner{};
};
/// Throws Error with both figures for a run on the processor of this host whose workers together
/// need more. Counts the model's state, as far as the part that a worker keeps is known, and the
/// activations of a micro-batch. Runs on several hosts are checked where they are placed
/// (experiments/runner/hosts/placement.h).
void check_memory(const std::vector<RunPlan>& plans, const MemoryLimit& limit);

}  // namespace ringside::runner
