// Plan: which rank runs what, and where. The plan is all that the ranks of a run are told.
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

/// The largest number of threads of one rank.
inline constexpr std::int64_t most_threads = 1024;

Fields fields_of(DeviceConfig& config);

/// The [sim] table of an experiment file: how simulated ranks run.
struct SimConfig {
  bool numerics = false;
  std::int64_t message_ranks = 8;
  std::int64_t traced_ranks = 16;
  double network_gbit_s = 0;
  bool operator==(const SimConfig&) const = default;
};

Fields fields_of(SimConfig& config);

/// What one rank does. A worker computes, a server keeps a part of the parameters; one rank may do
/// both. The number is -1 for a role that the rank does not have.
struct RankPlan {
  int rank = 0;
  int worker = -1;
  int server = -1;
  std::string device{};  // device kind, if it differs from the kind of the run
  int ordinal = -1;      // index among the machine's devices of that kind; -1: not numbered
  /// How the environment of the rank's process differs from the launcher's: "NAME=VALUE" sets a
  /// variable, "NAME" removes it.
  std::vector<std::string> environment{};
  std::string role() const;  // "worker", "server", "worker+server"
  bool operator==(const RankPlan&) const = default;
};

Fields fields_of(RankPlan& rank);

/// Why a run is made.
enum class Purpose : std::uint8_t {
  asked,      // the run is compared
  reference,  // other runs must equal this run, which is made only once, before all others; its
              // speed is not compared
  all_cores   // `single` with the threads of all ranks of the largest world, at most one per core
};
inline constexpr std::string_view purpose_names[] = {"asked", "reference", "all cores"};
constexpr EnumNames names_of(Purpose) { return purpose_names; }

/// The order in which a run adds up the gradients of a step: first those of `micro_batches`
/// micro-batches within each of `groups` groups, then the sums of the groups. A tree with one
/// group, or with one micro-batch in each group, is a plain sequence, and is stored as one group of
/// all micro-batches. Micro-batches whose batch norms share their statistics count as one larger
/// micro-batch, which they equal up to rounding. Runs of one experiment with equal trees and equal
/// learning rates must end with equal bits.
struct SumTree {
  std::int64_t groups = 1;
  std::int64_t micro_batches = 1;
  double lr = 0;  // scaled to the number of ranks
  bool operator==(const SumTree&) const = default;
};

/// What a scheme promises about its results.
enum class Promise : std::uint8_t {
  same_run,      // the same training run as `single` over the same micro-batches
  own_algorithm  // an algorithm of the scheme's own, whose losses may differ
};
inline constexpr std::string_view promise_names[] = {"same run", "own algorithm"};
constexpr EnumNames names_of(Promise) { return promise_names; }

/// The held-out loss to which a comparison measures the time of each run.
enum class TargetKind : std::uint8_t {
  none,
  number,  // RunPlan::target_loss
  single   // what `single` with the same training reaches at the end
};
inline constexpr std::string_view target_names[] = {"none", "number", "single"};
constexpr EnumNames names_of(TargetKind) { return target_names; }

/// One key of an experiment file, such as "scheme.ps.servers", and its value as text.
struct Setting {
  std::string key, value;
  bool operator==(const Setting&) const = default;
};

Fields fields_of(Setting& setting);

/// One run: one scheme at one world, executed once. `world` counts workers.
struct RunPlan {
  std::string id;            // "ddp-w2-r0": a file name, unique within the comparison
  std::string label;         // "ddp", "ps (servers=2)": the run's name in tables, beside its world
  std::string family;        // the label without what a sweep sets: runs of one family form a curve
  std::vector<Setting> set;  // what the run's case sets, without what a sweep sets too
  std::vector<Setting> swept;  // what the sweep sets
  Purpose purpose = Purpose::asked;
  /// Which line of the comparison's tables shows this run, its repeats and the same runs with other
  /// seeds.
  int line = 0;
  int place = 0;  // position in the order in which the comparison makes its runs
  SumTree sums;
  std::string experiment;
  std::string scheme;
  Options options;                      // options of the scheme, complete and checked
  Promise promise = Promise::same_run;  // promise of the scheme
  int world = 1;
  /// The run is the definition of a scheme with an algorithm of its own: one rank that stands for
  /// this many workers. 0: the run is no definition.
  int defines = 0;
  int servers = 0;
  int repeat = 0;
  TargetKind target_kind = TargetKind::none;
  double target_loss = 0;
  ModelConfig model;
  DataConfig data;
  TrainConfig train;  // micro_batch and accumulation as this run uses them, not as the file asks
  OptimizerConfig optimizer;
  DeviceConfig device;
  SimConfig sim;
  /// The simulated cluster; none if the ranks are real.
  std::optional<sim::ClusterSpec> cluster;
  std::string save;             // file for worker 0's weights at the end; empty: none
  std::vector<RankPlan> ranks;  // workers first: rank i is worker i for i < world
  bool operator==(const RunPlan&) const = default;
};

/// The kind of device on which a rank computes.
inline const std::string& device_kind(const RunPlan& plan, const RankPlan& rank) {
  return rank.device.empty() ? plan.device.kind : rank.device;
}
/// Whether several ranks share a device that is meant for one rank. In that case measured times
/// tell nothing about the schemes.
bool shares_device(const RunPlan& plan);
/// The number of GPUs of this machine that all ranks use together; 0 for a run on CPUs or a
/// simulated run.
int gpus(const RunPlan& plan);

/// Whether one run repeats the other: the plans differ at most in id, repeat, line, place and save.
bool same_case(const RunPlan& a, const RunPlan& b);

/// Whether both runs train the same model on the same data with the same numbers, so that they may
/// differ only in the order of their sums and in their learning rate: both stand in RunPlan::sums.
/// Runs with the same training and equal sums must end with equal bits.
bool same_training(const RunPlan& a, const RunPlan& b);

/// Whether `run` must end with the bits of `definition`. For a scheme with an algorithm of its own,
/// `definition` is then the run of the scheme's definition for the world of `run`; for all other
/// schemes it is a run of `single` that adds up the same micro-batches in the same order. (With
/// train.reduce = "every" and several micro-batches, gradients are added up in another order, and
/// the runs agree to rounding only.)
bool must_equal(const RunPlan& run, const RunPlan& definition);

/// Whether losses and parameters of the run are real: not in a simulation without numerics.
inline bool computes(const RunPlan& plan) { return !plan.cluster || plan.sim.numerics; }

/// Returns the default options of a scheme; throws Error for an unknown scheme.
using DefaultOptions = std::function<Options(const std::string& scheme)>;

nlohmann::ordered_json to_json(const RunPlan& plan);
/// Reads what to_json() wrote; throws nlohmann::json::exception or Error for anything else. Other
/// members of the object are left alone.
RunPlan run_plan_from_json(const nlohmann::json& in, const DefaultOptions& defaults);

}  // namespace ringside
