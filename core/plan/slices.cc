#include "core/plan/slices.h"

#include <algorithm>
#include <numeric>

#include "core/plan/mesh.h"

namespace ringside {

BatchSlice slice_of(const RunPlan& plan, int worker, std::int64_t step, std::int64_t micro_batch) {
  const TrainConfig& train = plan.train;
  const std::int64_t all = data_world(plan) * train.accumulation;
  const std::int64_t place = mesh_place(plan, worker).data * train.accumulation + micro_batch;
  if (train.weights.empty()) {
    const std::int64_t count = train.global_batch / all;
    return {step, place * count, count};
  }
  const std::int64_t each = all / static_cast<std::int64_t>(train.weights.size());
  const auto own = train.weights.begin() + place / each;
  const std::int64_t before = std::accumulate(train.weights.begin(), own, std::int64_t{0});
  return {step, each * before + place % each * *own, *own};
}

std::int64_t joined_micro_batches(const RunPlan& plan) {
  return data_world(plan) == 1 ? plan.model.batch_norm_group : 1;
}

BatchSlice next_slice(const RunPlan& plan, int worker, std::int64_t step,
                      std::int64_t micro_batch) {
  if (micro_batch + 1 < plan.train.accumulation)
    return slice_of(plan, worker, step, micro_batch + 1);
  return slice_of(plan, worker, step + 1, 0);
}

std::int64_t samples_of(const RunPlan& plan, int worker) {
  const std::vector<std::int64_t>& weights = plan.train.weights;
  if (static_cast<int>(weights.size()) == data_world(plan))
    return weights[static_cast<std::size_t>(mesh_place(plan, worker).data)] *
           plan.train.accumulation;
  return plan.train.global_batch / data_world(plan);
}

std::int64_t largest_micro_batch(const RunPlan& plan) {
  const std::vector<std::int64_t>& weights = plan.train.weights;
  if (weights.empty())
    return plan.train.global_batch / (data_world(plan) * plan.train.accumulation);
  return *std::max_element(weights.begin(), weights.end());
}

}  // namespace ringside
