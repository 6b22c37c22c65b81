#include "experiments/runner/report/setup.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/json_fields.h"
#include "core/observe/dtypes.h"
#include "core/plan/mesh.h"

namespace ringside::runner {
namespace {

using nlohmann::ordered_json;

template <class Value>
void add_new(std::vector<Value>& values, const Value& value) {
  if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
}

}  // namespace

CaseSetup setup_of(const std::vector<const RunRecord*>& repeats) {
  CaseSetup out;
  for (const RunRecord* row : repeats) {
    add_new(out.seeds, row->plan.train.seed);
    for (const RankRecord& rank : row->ranks)
      if (!rank.host.empty()) add_new(out.hosts, rank.host);
    if (out.parameters > 0 || row->status != "ok") continue;
    out.parameters = row->parameters;
    if (row->samples_per_s > 0) out.tokens = row->tokens_per_s / row->samples_per_s;
  }
  return out;
}

ordered_json setup_json(const RunPlan& plan, const CaseSetup& setup) {
  const TrainConfig& train = plan.train;
  const ordered_json options = to_json(plan.options.fields());
  const auto shard = options.find("shard");
  ordered_json out = {{"model", to_json(plan.model)},
                      {"parameters", setup.parameters},
                      {"data", to_json(plan.data)},
                      {"global_batch", train.global_batch},
                      {"micro_batch", train.micro_batch},
                      {"accumulation", train.accumulation},
                      {"sequence", setup.tokens > 0 ? ordered_json(setup.tokens) : ordered_json()},
                      {"steps", train.steps},
                      {"warmup", train.warmup},
                      {"recompute", name_of(train.recompute)},
                      {"offload", name_of(train.offload)},
                      {"dtypes", dtypes_json(train)},
                      {"optimizer", to_json(plan.optimizer)},
                      {"options", options},
                      {"shard", shard == options.end() ? ordered_json() : *shard},
                      {"servers", plan.servers},
                      {"device", plan.device.kind},
                      {"threads", plan.device.threads},
                      {"tf32", plan.device.tf32},
                      {"seeds", setup.seeds},
                      {"hosts", setup.hosts}};
  if (has_pipeline(plan)) {
    out["mesh"] = to_json(fields_to_read(plan.mesh));
    out["pipeline"] = to_json(fields_to_read(plan.pipeline));
  }
  return out;
}

}  // namespace ringside::runner
