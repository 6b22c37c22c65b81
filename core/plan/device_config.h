// The [device] and [sim] tables of an experiment file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/fields.h"

namespace ringside {

/// The [device] table of an experiment file.
struct DeviceConfig {
  std::string kind = "cpu";
  std::int64_t threads = 1;
  bool tf32 = false;
  std::string cluster;
  double efficiency = 1;
  double unfused = 1;
  double peak_tflops = 0;
  /// The factor by which each worker's forward and backward take longer; workers beyond the list,
  /// and runs of one worker, are not slowed.
  std::vector<double> slow;
  double jitter = 0;
  bool operator==(const DeviceConfig&) const = default;
};

/// The largest factor of DeviceConfig::slow.
inline constexpr double most_slowness = 1000;

/// The largest DeviceConfig::efficiency, and the smallest is its inverse.
inline constexpr double most_efficiency = 16;

/// The largest DeviceConfig::unfused.
inline constexpr double most_unfused = 100;

/// The largest number of threads of one rank.
inline constexpr std::int64_t most_threads = 1024;

Fields fields_of(DeviceConfig& config);

/// The [sim] table of an experiment file: how simulated ranks run.
struct SimConfig {
  bool numerics = false;
  std::int64_t message_ranks = 8;
  std::int64_t traced_ranks = 16;
  double network_gbit_s = 0;
  double queue_kb = -1;
  bool drops = true;
  double jitter = 0;
  double spread = -1;
  double device_share = -1;
  bool tuning = true;
  bool servers_apart = false;
  std::string framework = "none";
  std::string messages = "cluster";
  bool decode = false;
  bool intervals = true;
  bool operator==(const SimConfig&) const = default;
};

Fields fields_of(SimConfig& config);

}  // namespace ringside
