// RunPlan: the work and the place of each rank. The plan is all that the ranks of a run are told.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fields.h"
#include "core/base/options.h"
#include "core/data/dataset.h"
#include "core/models/model_config.h"
#include "core/optim/optimizer.h"
#include "core/plan/checkpoint_config.h"
#include "core/plan/compared.h"
#include "core/plan/device_config.h"
#include "core/plan/history.h"
#include "core/plan/hosts_config.h"
#include "core/plan/mesh_config.h"
#include "core/plan/other_program.h"
#include "core/plan/plugin_file.h"
#include "core/plan/rank_plan.h"
#include "core/plan/run_listing.h"
#include "core/plan/train_config.h"
#include "core/sim/cluster.h"

namespace ringside {

/// One run: one scheme at one world, executed once. `world` counts workers.
struct RunPlan {
  std::string id;      // "ddp-w2-r0": a file name, unique within the comparison
  RunListing listing;  // how tables list the run; its ranks do not read it
  Purpose purpose = Purpose::asked;
  SumTree sums;
  std::string experiment;
  std::string scheme;
  Options options;                      // options of the scheme, complete and checked
  Promise promise = Promise::same_run;  // promise of the scheme
  int world = 1;
  MeshConfig mesh{.data = 1};  // of the workers (core/plan/mesh.h); without a pipeline: unused
  PipelineConfig pipeline{};   // of a mesh with a pipeline
  /// Of the run that the workers and servers of one stage see (data_view()): the number of each
  /// rank in the run of all stages. Empty: their own numbers.
  std::vector<int> ranks_of_whole{};
  /// The run is the definition of a scheme with an algorithm of its own, or with an order of sums
  /// of its own: one rank that stands for this many workers. 0: the run is no such definition.
  int defines = 0;
  int servers = 0;
  /// How many workers may be away at a time without ending the run: killed, or gone on purpose.
  /// Worker 0, which reports the parameters at the end, and workers with a server in their process
  /// are not expendable.
  int expendable = 0;
  int repeat = 0;
  ModelConfig model;
  DataConfig data;
  /// micro_batch, accumulation and shares as this run uses them, not as the file asks
  /// (core/plan/slices.h): micro_batch is the largest of the run.
  TrainConfig train;
  OptimizerConfig optimizer;
  DeviceConfig device;
  SimConfig sim;
  /// The simulated cluster; none if the ranks are real.
  std::optional<sim::ClusterSpec> cluster;
  double host_step_us = 0;  // simulated: time of the framework's host before every step's work
  /// The program that runs the ranks in place of ours, if another one does. Its kernels are others,
  /// so its results agree with ours to rounding at best.
  std::optional<OtherProgram> program{};
  /// The plug-ins of the process that planned the run. Every process of the run loads them.
  std::vector<PluginFile> plugins{};
  CheckpointConfig checkpoint{};
  std::string resume{};  // the checkpoint from which ranks go on; empty: they begin anew
  FaultsConfig faults{};
  /// The run ends after so many steps, with a checkpoint; 0: after train.steps.
  std::int64_t until = 0;
  /// Of a run whose workers may come and go: the smallest and the largest number of workers, and
  /// how often the world has changed. 0: `world` is that of the whole run. Where seats are taken
  /// again (core/plan/worlds.h), `generation` is the number of this process in its worker's seat.
  int least_world = 0, most_world = 0;
  std::int64_t generation = 0;
  /// The plans of the run at the worlds that it can have, ascending; at_world() reads them. Its
  /// ranks do not know them.
  std::vector<RunPlan> worlds{};
  /// Copies in the host's memory from which ranks go on, in place of `resume`.
  std::vector<HostMemoryFile> host_copies{};
  std::string save;             // file for worker 0's weights at the end; empty: none
  std::vector<RankPlan> ranks;  // workers first: rank i is worker i for i < world
  /// By rank; empty: all ranks live on the host that plans. A simulated run has the homes of the
  /// run that it predicts, if any.
  std::vector<RankHome> homes{};
  HostsConfig hosts{};
  /// Of a definition that replays a run: what happened to every range of the run's servers.
  std::vector<ChunkHistory> history;
  /// Of such a definition: the workers that the run lost, whose losses are not known.
  std::vector<std::int64_t> lost;
  bool operator==(const RunPlan&) const = default;
};

/// The kind of device on which a rank computes.
inline const std::string& device_kind(const RunPlan& plan, const RankPlan& rank) {
  return rank.device.empty() ? plan.device.kind : rank.device;
}
/// Whether several ranks share a device that is meant for one rank. In that case measured times
/// tell nothing about the schemes.
bool shares_device(const RunPlan& plan);
/// The number of GPUs that all ranks use together; 0 for a run on CPUs or a
/// simulated run.
int gpus(const RunPlan& plan);

/// Whether one process runs all ranks and reports the list of their records.
inline bool in_one_process(const RunPlan& plan) {
  return plan.cluster || (plan.program && plan.program->all_ranks);
}

/// Whether ranks of the run live on more than one host.
bool spans_hosts(const RunPlan& plan);
/// Whether two ranks live on one host.
bool share_host(const RunPlan& plan, int rank, int other);

/// Whether losses and parameters of the run are real: not in a simulation without numerics.
inline bool computes(const RunPlan& plan) { return !plan.cluster || plan.sim.numerics; }

/// Returns the default options of a scheme; throws Error for an unknown scheme.
using DefaultOptions = std::function<Options(const std::string& scheme)>;

nlohmann::ordered_json to_json(const RunPlan& plan);
/// Reads what to_json() wrote; throws nlohmann::json::exception or Error for anything else. Other
/// members of the object are left alone.
RunPlan run_plan_from_json(const nlohmann::json& in, const DefaultOptions& defaults);

/// Reads the plan that a process is told, with all that the process needs to understand it.
using ReadPlan = std::function<RunPlan(const nlohmann::json&)>;

}  // namespace ringside
