// The calibration of this machine: measurements from which simulations predict runs on it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/plan/run_plan.h"
#include "core/sim/cluster.h"
#include "experiments/runner/run/run.h"

namespace ringside::tools::calibrate {

/// The trainings that are timed, each several times as rounds that lie apart.
struct TimedTrainings {
  double warming_s = 0.05, timed_s = 0.15;  // of each round; caches and clocks are warm by then
  int rounds = 3;
  /// Whether the operations' times are scaled to those of steps without timing: on a GPU the marks
  /// between operations take time themselves.
  bool plain_steps = false;
};
/// The trainings on a GPU, whose clocks take longer to settle, and which no other work disturbs.
inline constexpr TimedTrainings trainings_of_gpus{
    .warming_s = 0.5, .timed_s = 1, .rounds = 1, .plain_steps = true};

/// The means by which a calibration makes its runs.
struct CalibrationSite {
  runner::RankStart start;
  int hosts = 1;           // number of hosts; ranks of a run are spread evenly over them
  std::int64_t cores = 1;  // of each, for all of its ranks together
  std::int64_t slots = 1;  // of each: the most ranks that it may have at once
  TimedTrainings trainings{};
  /// Gives the ranks of a run their homes, devices and environments; does nothing for the
  /// processor of one host.
  std::function<void(RunPlan&)> place = [](RunPlan&) {};
  InterHostBackend between =
      InterHostBackend::gloo;  // several hosts: the library whose collectives are timed
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
/// `runs` are the runs to predict. The operations of their models are timed on one rank alone and
/// on as many ranks at once as a run keeps busy; other operations are timed in the precisions of
/// the runs alone. Without runs there are figures of all precisions, from models that represent
/// others.
sim::ClusterSpec calibrate(std::int64_t threads, const std::vector<RunPlan>& runs,
                           const CalibrationSite& site,
                           const std::function<void(const std::string&)>& told);

/// Returns the machine of the GPU on which `runs` compute: its device with the operations of their
/// models timed as they are, and efficiencies that follow from these (experiments/tools/calibrate/
/// curves.h). With `around`, all else is that machine's: its host, links, collectives, messages and
/// number of GPUs, and also the peaks and the bandwidth, of which efficiencies are shares. Without
/// one the machine has a single GPU; its peaks are the fastest products, and its host, the link to
/// it and messages are measured too, on this process's processor. A missing figure is taken from a
/// class or a dtype that was measured, and is marked as assumed.
///
/// Blocks for about ten seconds for each training of the runs, and for twenty more without
/// `around`; nothing else should run on the GPU. Throws Error as calibrate() does. `runs` is not
/// empty.
sim::ClusterSpec calibrate_gpu(const std::vector<RunPlan>& runs, const CalibrationSite& site,
                               const std::optional<sim::ClusterSpec>& around,
                               const std::function<void(const std::string&)>& told);

/// The name of a calibration's cluster. It names the machine, the threads of a rank and, for
/// several hosts, their number and the library between them, because the figures hold for these
/// alone. The calibration of a GPU has the GPU's name (DeviceRow::describe).
std::string calibration_name(std::int64_t threads, int hosts = 1,
                             InterHostBackend between = InterHostBackend::gloo);

// ---- the parts of calibrate()

/// This machine's processor for `ranks` ranks at once, without measured figures.
sim::DeviceSpec processor(std::int64_t ranks);

/// Measures peak, bandwidth, launch cost and efficiencies of the CPU device. Operations are timed
/// where they usually run: within training steps of small models.
void measure_device(sim::DeviceSpec& device, const std::set<Precision>& precisions,
                    std::int64_t threads, const CalibrationSite& site);

/// Times the operations of a training step of every run (ClusterSpec::timed): on one rank that
/// computes what a worker of the run computes, first alone on its host, and then together with as
/// many equal ranks as the run has ranks and the host has cores. All of them are processes, as the
/// ranks of the run will be. The additional time of ranks together is attributed to the memory,
/// whose bandwidth cores share. On a device that belongs to one rank (`slots` and cores are 1),
/// only one rank is timed. Returns the operations of a step of each training, each as often as the
/// step has it, and pieces of the model once.
std::vector<sim::TimedOperation> measure_models(sim::ClusterSpec& cluster,
                                                const std::vector<RunPlan>& runs,
                                                const CalibrationSite& site);

/// Measures collectives between processes through shared memory.
void measure_collectives(sim::ClusterSpec& cluster, std::int64_t threads);

/// Measures messages between a worker and a server, as they travel between ranks on devices of this
/// kind (DeviceRow::links), to a receiver that sleeps.
void measure_messages(sim::ClusterSpec& cluster, std::string_view device);

/// Measures collectives and messages between the hosts, by a run with a worker on each.
void measure_network(sim::ClusterSpec& cluster, std::int64_t threads, const CalibrationSite& site);

// ---- common parts

struct Repetition {
  std::int64_t warmup = 2;  // steps that are not timed
  std::int64_t steps = 9;   // that are timed
  int repeat = 0;           // the first one times pieces of the model too
  bool timed = true;        // whether operations are timed; else only steps are
};

/// A run in which `ranks` ranks of every host do the same training at once, each by itself, and
/// time their operations. Blocks, and returns the run's record. Throws Error if the run fails or
/// the user interrupts.
RunRecord timed_run(const RunPlan& training, int ranks, const Repetition& repetition,
                    const CalibrationSite& site);
/// Makes the run, placed on the site's hosts; blocks and throws as timed_run() does. `what` names
/// the run in errors.
RunRecord made(RunPlan plan, const CalibrationSite& site, const std::string& what);

}  // namespace ringside::tools::calibrate
