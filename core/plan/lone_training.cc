#include "core/plan/lone_training.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/hash.h"
#include "core/plan/same_run.h"

namespace ringside {

RunPlan lone_training(const RunPlan& run) {
  RunPlan lone;
  lone.scheme = reference_scheme;
  lone.model = run.model;
  lone.model.batch_norm_group = 1;
  lone.data = run.data;
  lone.optimizer = run.optimizer;
  lone.device = run.device;
  lone.train.micro_batch = run.train.micro_batch;
  lone.train.accumulation = run.train.accumulation;
  lone.train.global_batch = run.train.micro_batch * run.train.accumulation;
  lone.train.recompute = run.train.recompute;
  lone.train.precision = run.train.precision;
  lone.train.reduce_precision = run.train.reduce_precision;
  lone.train.timeout_s = run.train.timeout_s;
  lone.ranks = {{0, 0, -1}};
  lone.homes.resize(std::min<std::size_t>(lone.homes.size(), 1));
  return lone;
}

std::string lone_training_name(const RunPlan& run) {
  const std::string text = to_json(lone_training(run)).dump();
  Hash hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.digest().substr(0, 16);
}

}  // namespace ringside
