// The [checkpoint] and [faults] tables of an experiment file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/fields.h"

namespace ringside {

/// What a run writes down from time to time, so that it can go on.
struct CheckpointConfig {
  std::string path;        // folder of the run's checkpoints; empty: none are written
  std::int64_t every = 0;  // steps from one checkpoint to the next; 0: only the last step's
  std::int64_t keep = 2;
  bool asynchronous = true;
  /// Steps from one copy of the state in the host's memory to the next, in an elastic run.
  std::int64_t memory_every = 1;
  bool operator==(const CheckpointConfig&) const = default;
};

Fields fields_of(CheckpointConfig& config);

/// Whether a run of `steps` steps writes a checkpoint once `done` of them are done.
constexpr bool checkpoints_after(const CheckpointConfig& config, std::int64_t done,
                                 std::int64_t steps) {
  return done == steps || (config.every > 0 && done % config.every == 0);
}

struct FaultsConfig {
  std::int64_t restarts = 0;
  std::vector<std::string> plan;  // core/plan/faults.h
  std::string rate;               // of random kills; empty: none
  std::int64_t seed = 1;
  double hours = 720;  // of a simulated run with a rate: the time over which failures are drawn
  /// Steps from one comparison of the workers' parameters with each other to the next; 0: none.
  std::int64_t compare_every = 0;
  /// The smallest world with which a run goes on whose workers come and go; 0: they do not.
  std::int64_t least_world = 0;
  bool remove_slow = false;  // of those, a worker that is slow leaves
  /// What has struck the run so far: numbers of faults of the list, and of random kills. The
  /// process that started the run alone knows them.
  std::vector<std::int64_t> struck{};
  std::int64_t drawn = 0;
  bool operator==(const FaultsConfig&) const = default;
};

Fields fields_of(FaultsConfig& config);

}  // namespace ringside
