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

/// Returns a cluster of one machine: this one, whose ranks are processes of `threads` threads on
/// its cores. The call keeps the cores busy and blocks for about twenty seconds, and with `runs`
/// for three to four more for each training of theirs, so nothing else should run. Calls `told`
/// with the name of each kind of measurement before it begins. Throws Error where something cannot
/// be measured, and when the user interrupts.
///
/// `runs` are to be predicted: the operations of their models are timed as they are, on a rank
/// alone and on as many ranks at once as a run keeps busy, and other operations in the precisions
/// of the runs alone. Without runs there are figures of all precisions, from models that stand for
/// others.
sim::ClusterSpec calibrate(std::int64_t threads, const std::vector<RunPlan>& runs,
                           const RankStart& start,
                           const std::function<void(const std::string&)>& told);

/// The name of a calibration's cluster. It names the machine and the threads of a rank, since the
/// figures hold for these alone.
std::string calibration_name(std::int64_t threads);

// ---- the parts of calibrate()

/// Measures peak, bandwidth, launch cost and efficiencies of the CPU device. Operations are timed
/// where they usually run: within training steps of small models.
void measure_device(sim::DeviceSpec& device, const std::set<Precision>& precisions,
                    std::int64_t threads, const RankStart& start);

/// Times the operations of a training step of every run (ClusterSpec::timed): on one rank that
/// computes what a worker of the run computes, first alone, and then beside as many that do the
/// same as the run has ranks and the machine has cores. All of them are processes, as the ranks of
/// the run will be. What they take longer together is put down to the memory, whose width cores
/// share.
void measure_models(sim::ClusterSpec& cluster, const std::vector<RunPlan>& runs,
                    const RankStart& start);

/// Measures collectives between processes through shared memory.
void measure_collectives(sim::ClusterSpec& cluster, std::int64_t threads);

/// Measures messages between a worker and a server, as they travel by default: through shared
/// memory, to a receiver that sleeps.
void measure_messages(sim::ClusterSpec& cluster, std::int64_t threads);

// ---- what these have in common

struct Repetition {
  std::int64_t warmup = 2;  // steps that are not timed
  std::int64_t steps = 9;   // that are timed
  int repeat = 0;           // the first one times pieces of the model too
};

/// A run in which so many ranks do a lone training at once, each by itself, and time what they
/// compute.
RunPlan timing_run(const RunPlan& training, int ranks, const Repetition& repetition);
/// Makes the run and returns its row. Blocks. Throws Error if it fails or the user interrupts.
Row timed_run(const RunPlan& plan, const RankStart& start);

}  // namespace ringside
