#include "experiments/tools/explain/lower_bounds.h"

#include <algorithm>

#include "experiments/tools/explain/cause.h"

namespace ringside {
namespace {

/// Whether both compute the same samples with the same model on the same devices. (Orders of sums
/// and learning rates do not change what takes time.)
bool same_work(const RunPlan& a, const RunPlan& b) {
  return a.model == b.model && a.data == b.data && a.train.precision == b.train.precision &&
         a.train.recompute == b.train.recompute && a.optimizer.kind == b.optimizer.kind &&
         a.device.kind == b.device.kind && a.device.threads == b.device.threads &&
         a.device.slow == b.device.slow && a.cluster == b.cluster;
}

const Evidence* find(const std::vector<Evidence>& all, const Evidence& one,
                     const std::string& scheme, int world) {
  for (const Evidence& other : all)
    if (other.plan().scheme == scheme && other.plan().world == world &&
        other.summary.purpose == Purpose::asked && same_work(other.plan(), one.plan()))
      return &other;
  return nullptr;
}

}  // namespace

Bounds bounds_of(const Evidence& e, const std::vector<Evidence>& all) {
  const RunPlan& plan = e.plan();
  Bounds out{.sent_bytes = e.summary.bytes_sent_per_step,
             .least_bytes = e.summary.bytes_minimum_per_step};
  if (const auto gbs = link_gbs(plan); gbs && out.least_bytes > 0) {
    out.link_gbs = *gbs;
    out.link_ms = out.least_bytes / *gbs / 1e6;
  }
  if (const Evidence* lone = find(all, e, "independent", plan.world);
      lone && lone->plan().train.global_batch == plan.train.global_batch && lone != &e) {
    out.compute_ms = lone->ms.step;
    out.compute_of = "'independent', whose workers never speak";
  } else if (const Evidence* single = find(all, e, "single", 1); single && plan.world > 1) {
    const double samples = static_cast<double>(plan.train.global_batch) /
                           static_cast<double>(single->plan().train.global_batch);
    out.compute_ms = single->ms.step * samples / plan.world;
    out.compute_of = "'single', divided by the world";
  } else if (!e.ranks.empty()) {
    const auto fastest = std::min_element(
        e.ranks.begin(), e.ranks.end(),
        [](const RankTime& a, const RankTime& b) { return a.compute_ms < b.compute_ms; });
    out.compute_ms = e.scaled(fastest->compute_ms);
    out.compute_of = "the compute of its fastest rank";
  } else {
    out.compute_ms = e.ms.compute;
    out.compute_of = "its own compute";
  }
  return out;
}

}  // namespace ringside
