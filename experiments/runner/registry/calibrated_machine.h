// CalibratedMachine: this machine, or the hosts of a job, as `ringside calibrate` measured them.
#pragma once

#include <cstdint>
#include <string>

#include "core/plan/run_plan.h"

namespace ringside::runner {

/// Nothing is known about runs on other devices, with another number of threads, or with another
/// transport between hosts.
struct CalibratedMachine {
  sim::ClusterSpec cluster;
  std::string device = "cpu";  // the kind of its devices
  std::int64_t threads = 1;    // of a rank on a CPU
  InterHostBackend between = InterHostBackend::gloo;
};

/// Whether workers of the run, which is not simulated, compute on such devices.
bool has_devices_of(const RunPlan& run, const CalibratedMachine& machine);

/// The calibrated cluster with the timed operations of the training that the workers of `run` do,
/// and from other trainings those operations that this one lacks.
sim::ClusterSpec calibrated_for(const RunPlan& run, const sim::ClusterSpec& machine);

}  // namespace ringside::runner
