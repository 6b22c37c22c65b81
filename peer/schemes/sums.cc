#include "peer/schemes/sums.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/plan/device_traits.h"
#include "core/plan/places.h"
#include "peer/comm/algorithms/choice.h"

namespace ringside::peer {
namespace {

/// Whether the plan's ranks share the memory of one host, or NCCL chooses.
bool only_native(const RunPlan& plan) { return !plan.cluster || shares_memory(*plan.cluster); }

/// The machine on which each of the workers lives. Real ranks live on one host.
std::vector<int> hosts_of(const RunPlan& plan, const std::vector<int>& workers) {
  std::vector<int> hosts;
  for (const int worker : workers)
    hosts.push_back(plan.cluster ? place_of_worker(plan, worker).machine : 0);
  return hosts;
}

}  // namespace

std::vector<int> some_workers(int count, int first, int stride) {
  std::vector<int> out;
  for (int i = 0; i < count; ++i) out.push_back(first + i * stride);
  return out;
}

SumOrder order_of_sums(const RunPlan& plan, Algorithm algorithm, bool two_levels) {
  if (plan.world == 1 || device_traits(plan.device.kind).sums_in_library)
    return SumOrder::of_single;
  if (algorithm == Algorithm::library) return SumOrder::unknown;
  const bool each_micro_batch = plan.train.reduce == Reduce::every && plan.train.accumulation > 1;
  const bool native =
      algorithm == Algorithm::native || (algorithm == Algorithm::automatic && only_native(plan));
  if (!native) return SumOrder::own_by_messages;
  return two_levels || each_micro_batch ? SumOrder::own : SumOrder::of_single;
}

std::vector<Sum> sums_of(const RunPlan& plan, Algorithm algorithm, Collective::Kind kind,
                         std::int64_t count, const std::vector<int>& workers) {
  if (algorithm == Algorithm::automatic) algorithm = chosen(plan, kind, {count}, workers)[0];
  std::vector<Sum> sums =
      algorithm == Algorithm::native
          ? std::vector<Sum>{in_rank_order(count, static_cast<int>(workers.size()))}
          : find_algorithm(algorithm).sums(kind, count, hosts_of(plan, workers));
  for (Sum& sum : sums)
    for (Addition& one : sum.additions)
      one = {workers[static_cast<std::size_t>(one.into)],
             workers[static_cast<std::size_t>(one.from)]};
  return sums;
}

std::vector<Algorithm> chosen(const RunPlan& plan, Collective::Kind kind,
                              const std::vector<std::int64_t>& counts,
                              const std::vector<int>& workers) {
  if (only_native(plan)) return std::vector<Algorithm>(counts.size(), Algorithm::native);
  std::vector<sim::Place> places;
  for (const int worker : workers) places.push_back(place_of_worker(plan, worker));
  Choice choice(link_costs(*plan.cluster, places));
  const bool gathers = kind == Collective::Kind::all_gather;  // parameters; all else sums gradients
  const std::size_t element =
      size_of(gathers ? parameter_dtype(plan.train) : reduce_dtype(plan.train));
  std::vector<Algorithm> out;
  for (const std::int64_t count : counts)
    out.push_back(choice.row({.kind = kind}, count, element).algorithm);
  return out;
}

std::vector<SchemeFigure> figures_of_choice(const RunPlan& plan, Collective::Kind kind,
                                            const std::vector<std::int64_t>& counts,
                                            const std::vector<int>& workers,
                                            const std::string& what) {
  std::map<Algorithm, int> times;
  for (const Algorithm one : chosen(plan, kind, counts, workers)) ++times[one];
  std::vector<SchemeFigure> out;
  for (const auto& [algorithm, count] : times)
    out.push_back({fmt::format("{} by {}", what, name_of(algorithm)), "", double(count)});
  return out;
}

void check_algorithm(const RunPlan& plan, Algorithm algorithm, const std::string& key,
                     const std::vector<int>& workers) {
  if (algorithm == Algorithm::native || algorithm == Algorithm::automatic) return;
  if (device_traits(plan.device.kind).sums_in_library)
    throw Error(
        "{} = {}: on GPUs NCCL chooses its algorithms itself; leave the option out, or set the "
        "variable NCCL_ALGO",
        key, name_of(algorithm));
  if (algorithm == Algorithm::library) {
    if (plan.cluster && workers.size() > 1)
      throw Error(
          "{} = 'library': there is no model of what a library between hosts does by itself, so it "
          "is not simulated; leave the option out",
          key);
    return;
  }
  try {
    if (const auto check = find_algorithm(algorithm).check) check(hosts_of(plan, workers));
  } catch (const Error& error) {
    throw Error("{}: {}", key, error.what());
  }
}

}  // namespace ringside::peer
