#include "peer/sums.h"

#include "core/base/error.h"
#include "core/plan/places.h"
#include "peer/comm/algorithms/choice.h"

namespace ringside::peer {

namespace {

/// Whether the plan's ranks share the memory of one host, or NCCL chooses.
bool only_native(const RunPlan& plan) {
  return !plan.cluster || plan.cluster->collective.kind == sim::CollectiveKind::shm;
}

}  // namespace

std::vector<Algorithm> chosen(const RunPlan& plan, Call::Kind kind,
                              const std::vector<std::int64_t>& counts, int workers) {
  if (only_native(plan)) return std::vector<Algorithm>(counts.size(), Algorithm::native);
  std::vector<sim::Place> places;
  for (int worker = 0; worker < workers; ++worker)
    places.push_back(place_of_worker(*plan.cluster, worker));
  Choice choice(link_costs(*plan.cluster, places));
  const std::size_t element = size_of(parameter_dtype(plan.train));
  std::vector<Algorithm> out;
  for (const std::int64_t count : counts)
    out.push_back(choice.row({.kind = kind}, count, element).algorithm);
  return out;
}

bool sums_in_own_order(const RunPlan& plan, Algorithm algorithm) {
  if (plan.world == 1 || plan.device.kind == "cuda" || plan.model.batch_norm_group > 1)
    return false;
  const bool each_micro_batch = plan.train.reduce == Reduce::every && plan.train.accumulation > 1;
  const bool native =
      algorithm == Algorithm::native || (algorithm == Algorithm::automatic && only_native(plan));
  return !native || each_micro_batch;
}

std::vector<Sum> sums_of(const RunPlan& plan, Algorithm algorithm, Call::Kind kind,
                         std::int64_t count, int workers) {
  if (algorithm == Algorithm::automatic) algorithm = chosen(plan, kind, {count}, workers)[0];
  if (algorithm == Algorithm::native) return {in_rank_order(count, workers)};
  return find_algorithm(algorithm).sums(kind, count, hosts_of_workers(plan, workers));
}

void check_algorithm(const RunPlan& plan, Algorithm algorithm, std::string_view key) {
  if (algorithm == Algorithm::native || algorithm == Algorithm::automatic) return;
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
