// Plan: who runs what, where. The ranks of a run know nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fields.h"
#include "core/data/dataset.h"
#include "core/models/model.h"
#include "core/optim/optimizer.h"
#include "core/plan/options.h"
#include "core/plan/train_config.h"
#include "core/sim/cluster.h"

namespace ringside {

/// The [device] table of an experiment file.
struct DeviceConfig {
  std::string kind = "cpu";
  std::int64_t threads = 1;
  bool tf32 = false;
  std::string cluster;
  bool operator==(const DeviceConfig&) const = default;
};

/// Of one rank.
inline constexpr std::int64_t most_threads = 1024;

Fields fields_of(DeviceConfig& config);

/// The [sim] table of an experiment file: how simulated ranks run.
struct SimConfig {
  bool numerics = false;
  std::int64_t message_ranks = 8;
  std::int64_t traced_ranks = 16;
  bool operator==(const SimConfig&) const = default;
};

Fields fields_of(SimConfig& config);

/// What one rank does: a worker computes, a server keeps a part of the parameters; one rank may
/// do both. -1: not that.
struct RankPlan {
  int rank = 0;
  int worker = -1;
  int server = -1;
  std::string device{};  // kind, where it is not that of the run
  int ordinal = -1;      // which of this machine's devices of the kind; -1: they are not told apart
  /// What its process has beside the launcher's environment: "NAME=VALUE"; "NAME": not that one.
  std::vector<std::string> environment{};
  std::string role() const;  // "worker", "server", "worker+server"
  bool operator==(const RankPlan&) const = default;
};

/// Why a run is made.
enum class Purpose : std::uint8_t {
  asked,      // it is compared
  reference,  // others must equal it; it runs once and first, so its speed says nothing
  all_cores   // `single` with as many threads as the runs of the largest world have together
};
std::string_view name_of(Purpose purpose);

/// The order in which a run adds up the gradients of a step: `micro_batches` for each of `groups`,
/// then the groups. A tree with one group, or one micro-batch a group, is a plain sequence: {1,
/// all}. Micro-batches whose batch norms look at each other count as the one that they equal, to
/// rounding. Runs of one experiment with equal trees and equal learning rates must end with equal
/// bits.
struct SumTree {
  std::int64_t groups = 1;
  std::int64_t micro_batches = 1;
  double lr = 0;  // scaled to the number of ranks
  bool operator==(const SumTree&) const = default;
};

/// What a scheme promises of its results.
enum class Promise : std::uint8_t {
  same_run,      // the training run of `single` over the same micro-batches
  own_algorithm  // an algorithm of its own, whose losses may be other ones
};
std::string_view name_of(Promise promise);

/// One run: one scheme at one world, once. World counts workers.
struct RunPlan {
  std::string id;     // "ddp-w2-r0": a file name, of this run alone within its comparison
  std::string label;  // "ddp", "single x2": what tables call the run, beside its world
  Purpose purpose = Purpose::asked;
  int line = 0;   // of its case in the tables of the comparison
  int place = 0;  // in the order in which the runs of the comparison are made
  SumTree sums;
  std::string experiment;
  std::string scheme;
  Options options;                      // the scheme's own, complete and checked
  Promise promise = Promise::same_run;  // of the scheme
  int world = 1;
  int servers = 0;
  int repeat = 0;
  ModelConfig model;
  DataConfig data;
  TrainConfig train;  // micro_batch and accumulation as this run uses them, not as asked
  OptimizerConfig optimizer;
  DeviceConfig device;
  SimConfig sim;
  /// What is simulated; none for ranks that are real.
  std::optional<sim::ClusterSpec> cluster;
  std::string save;             // where worker 0 writes the weights at the end; empty: nowhere
  std::vector<RankPlan> ranks;  // workers first: rank i is worker i for i < world
  bool operator==(const RunPlan&) const = default;
};

/// What a rank computes on.
inline const std::string& device_kind(const RunPlan& plan, const RankPlan& rank) {
  return rank.device.empty() ? plan.device.kind : rank.device;
}
/// Whether two ranks have one device between them that is meant for one: then time says nothing.
bool shares_device(const RunPlan& plan);
/// How many GPUs of this machine the ranks have together; 0 for a run on CPUs or a simulated one.
int gpus(const RunPlan& plan);

/// Whether one run repeats the other: their plans differ at most in id, repeat, place and save.
bool same_case(const RunPlan& a, const RunPlan& b);

/// Whether its losses and parameters are real: not where it is simulated without numerics.
inline bool computes(const RunPlan& plan) { return !plan.cluster || plan.sim.numerics; }

/// What the options of a scheme are by default; throws Error for a scheme that is not known.
using DefaultOptions = std::function<Options(const std::string& scheme)>;

nlohmann::json to_json(const SumTree& sums);
nlohmann::json to_json(const RunPlan& plan);
/// Throws nlohmann::json::exception for what to_json() did not write.
RunPlan run_plan_from_json(const nlohmann::json& in, const DefaultOptions& defaults);

}  // namespace ringside
