// Plan: who runs what, where. The ranks of a run know nothing else.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/cluster/train_config.h"
#include "core/data/dataset.h"
#include "core/models/model.h"
#include "core/optim/optimizer.h"
#include "core/sim/cluster.h"

namespace ringside {

/// The [device] table of an experiment file.
struct DeviceConfig {
  std::string kind = "cpu";
  std::int64_t threads = 1;
  bool tf32 = false;
  std::string cluster;
};

template <class Visitor>
void visit_fields(DeviceConfig& c, Visitor&& v) {
  v("kind", c.kind, "which device (see `ringside list`)");
  v("threads", c.threads, "cpu: threads a rank computes with");
  v("tf32", c.tf32, "cuda, sim: products of fp32 on tensor cores, with 10 bits of mantissa");
  v("cluster", c.cluster,
    "cluster file: sim: what is simulated; else this machine, as `ringside calibrate` measured it, "
    "for predictions");
}

/// The [sim] table of an experiment file: how simulated ranks run.
struct SimConfig {
  bool numerics = false;
  std::int64_t message_ranks = 8;
  std::int64_t traced_ranks = 16;
};

template <class Visitor>
void visit_fields(SimConfig& c, Visitor&& v) {
  v("numerics", c.numerics, "compute for real too: the losses and the hash of a run on the CPU");
  v("message_ranks", c.message_ranks,
    "collectives of up to so many ranks run message by message, of more as equivalent flows");
  v("traced_ranks", c.traced_ranks, "the trace shows the first so many ranks");
}

/// What one rank does: a worker computes, a server keeps a part of the parameters; one rank may
/// do both. -1: not that.
struct RankPlan {
  int rank = 0;
  int worker = -1;
  int server = -1;
  std::string device{};  // kind, where it is not that of the run
  int ordinal = -1;      // which of this machine's devices of the kind; -1: they are not told apart
  std::vector<std::string> environment{};  // "NAME=VALUE" that its process gets
  std::string role() const;                // "worker", "server", "worker+server"
};

/// What a scheme promises of its results.
enum class Promise : std::uint8_t {
  same_run,      // the training run of `single` over the same micro-batches
  own_algorithm  // an algorithm of its own, whose losses may be other ones
};
std::string_view name_of(Promise promise);

/// One run: one scheme at one world, once. World counts workers.
struct RunPlan {
  std::string id;  // "ddp-w2-r0": a file name
  std::string experiment;
  std::string scheme;
  nlohmann::json options;               // the scheme's own, complete and checked
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
};

/// What a rank computes on.
inline const std::string& device_kind(const RunPlan& plan, const RankPlan& rank) {
  return rank.device.empty() ? plan.device.kind : rank.device;
}
/// Whether two ranks have one device between them that is meant for one: then time says nothing.
bool shares_device(const RunPlan& plan);

/// Whether its losses and parameters are real: not where it is simulated without numerics.
inline bool computes(const RunPlan& plan) { return !plan.cluster || plan.sim.numerics; }

nlohmann::json to_json(const RunPlan& plan);
RunPlan run_plan_from_json(const nlohmann::json& in);

}  // namespace ringside
