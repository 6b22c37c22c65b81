// Plan: who runs what, where. The ranks of a run know nothing else.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/cluster/train_config.h"
#include "core/data/dataset.h"
#include "core/models/model.h"
#include "core/optim/optimizer.h"

namespace ringside {

/// The [device] table of an experiment file.
struct DeviceConfig {
  std::string kind = "cpu";
  std::int64_t threads = 1;
};

template <class Visitor>
void visit_fields(DeviceConfig& c, Visitor&& v) {
  v("kind", c.kind, "which device (see `ringside list`)");
  v("threads", c.threads, "threads a rank computes with");
}

/// What one rank does: a worker computes, a server keeps a part of the parameters; one rank may
/// do both. -1: not that.
struct RankPlan {
  int rank = 0;
  int worker = -1;
  int server = -1;
  std::string role() const;  // "worker", "server", "worker+server"
};

/// One run: one scheme at one world, once. World counts workers.
struct RunPlan {
  std::string id;  // "ddp-w2-r0": a file name
  std::string experiment;
  std::string scheme;
  nlohmann::json options;  // the scheme's own, complete and checked
  int world = 1;
  int servers = 0;
  int repeat = 0;
  ModelConfig model;
  DataConfig data;
  TrainConfig train;  // micro_batch and accumulation as this run uses them, not as asked
  OptimizerConfig optimizer;
  DeviceConfig device;
  std::vector<RankPlan> ranks;  // workers first: rank i is worker i for i < world
};

nlohmann::json to_json(const RunPlan& plan);
RunPlan run_plan_from_json(const nlohmann::json& in);

}  // namespace ringside
