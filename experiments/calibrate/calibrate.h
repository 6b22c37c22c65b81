// Measures this machine, so that a simulation can predict runs on it.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/plan/run_plan.h"
#include "core/sim/cluster.h"
#include "experiments/run/run.h"

namespace ringside {

/// Where a calibration makes its runs.
struct CalibrationSite {
  RankStart start;
  int hosts = 1;           // how many; ranks of a run are spread evenly over them
  std::int64_t cores = 1;  // of each, for all of its ranks together
  std::int64_t slots = 1;  // of each: the most ranks that it may have at once
  /// Gives the ranks of a run their homes and environments; does nothing on one host.
  std::function<void(RunPlan&)> place = [](RunPlan&) {};
  Between between = Between::gloo;  // several hosts: the library whose collectives are timed
};

/// Returns a cluster of the hosts of the site, whose ranks are processes of `threads` threads on
/// their cores. The call keeps the cores busy and blocks for about twenty seconds, and with `runs`
/// for three to four more for each training of theirs, so nothing else should run. Calls `told`
/// with the name of each kind of measurement before it begins. Throws Error where something cannot
/// be measured, and when the user interrupts.
///
/// Several hosts are taken to be alike. This process measures the memory and the processor of its
/// own host; trainings run on all hosts at once, and the slowest counts.
///
/// `runs` are to be predicted: the operations of their models are timed as they are, on a rank
/// alone and on as many ranks at once as a run keeps busy, and other operations in the precisions
/// of the runs alone. Without runs there are figures of all precisions, from models that stand for
/// others.
sim::ClusterSpec calibrate(std::int64_t threads, const std::vector<RunPlan>& runs,
                           const CalibrationSite& site,
                           const std::function<void(const std::string&)>& told);

/// The name of a calibration's cluster. It names the machine, the threads of a rank and, of several
/// hosts, how many there are and what moves values between them, since the figures hold for these
/// alone.
std::string calibration_name(std::int64_t threads, int hosts = 1, Between between = Between::gloo);

// ---- the parts of calibrate()

/// Measures peak, bandwidth, launch cost and efficiencies of the CPU device. Operations are timed
/// where they usually run: within training steps of small models.
void measure_device(sim::DeviceSpec& device, const std::set<Precision>& precisions,
                    std::int64_t threads, const CalibrationSite& site);

/// Times the operations of a training step of every run (ClusterSpec::timed): on one rank that
/// computes what a worker of the run computes, first alone on its host, and then beside as many
/// that do the same as the run has ranks and the host has cores. All of them are processes, as the
/// ranks of the run will be. What they take longer together is put down to the memory, whose width
/// cores share.
void measure_models(sim::ClusterSpec& cluster, const std::vector<RunPlan>& runs,
                    const CalibrationSite& site);

/// Measures collectives between processes through shared memory.
void measure_collectives(sim::ClusterSpec& cluster, std::int64_t threads);

/// Measures messages between a worker and a server, as they travel by default: through shared
/// memory, to a receiver that sleeps.
void measure_messages(sim::ClusterSpec& cluster, std::int64_t threads);

/// Measures collectives and messages between the hosts, by a run with a worker on each.
void measure_network(sim::ClusterSpec& cluster, std::int64_t threads, const CalibrationSite& site);

// ---- what these have in common

struct Repetition {
  std::int64_t warmup = 2;  // steps that are not timed
  std::int64_t steps = 9;   // that are timed
  int repeat = 0;           // the first one times pieces of the model too
};

/// A run in which so many ranks of every host do a lone training at once, each by itself, and time
/// what they compute. Blocks, and returns the run's row. Throws Error if the run fails or the user
/// interrupts.
Row timed_run(const RunPlan& training, int ranks, const Repetition& repetition,
              const CalibrationSite& site);
/// Makes the run, placed on the site's hosts; blocks and throws as timed_run() does. `what` names
/// the run in errors.
Row made(RunPlan plan, const CalibrationSite& site, const std::string& what);

}  // namespace ringside
