#include "peer/sums.h"

#include "core/base/error.h"
#include "core/plan/places.h"
#include "peer/comm/algorithms/algorithms.h"

namespace ringside::peer {

bool sums_in_own_order(const RunPlan& plan, Algorithm algorithm) {
  if (plan.world == 1 || plan.device.kind == "cuda" || plan.model.batch_norm_group > 1)
    return false;
  const bool each_micro_batch = plan.train.reduce == Reduce::every && plan.train.accumulation > 1;
  return algorithm != Algorithm::native || each_micro_batch;
}

std::vector<Sum> sums_of(const RunPlan& plan, Algorithm algorithm, Call::Kind kind,
                         std::int64_t count, int workers) {
  if (algorithm == Algorithm::native) return {in_rank_order(count, workers)};
  return find_algorithm(algorithm).sums(kind, count, hosts_of_workers(plan, workers));
}

void check_algorithm(const RunPlan& plan, Algorithm algorithm, std::string_view key) {
  if (algorithm == Algorithm::native) return;
  if (plan.device.kind == "cuda")
    throw Error(
        "{} = {}: on GPUs NCCL chooses its algorithms itself; leave the option out, or set the "
        "variable NCCL_ALGO",
        key, name_of(algorithm));
  try {
    if (const auto check = find_algorithm(algorithm).check)
      check(hosts_of_workers(plan, plan.world));
  } catch (const Error& error) {
    throw Error("{}: {}", key, error.what());
  }
}

}  // namespace ringside::peer
