// Experiments in a simulated cluster.
#pragma once

#include "experiments/runner/config/config.h"

namespace ringside::testing {

/// The same experiment on the devices of the cluster.
inline runner::ExperimentConfig simulated(runner::ExperimentConfig config,
                                          const sim::ClusterSpec& cluster) {
  config.device.kind = "sim";
  config.cluster = cluster;
  return config;
}

}  // namespace ringside::testing
