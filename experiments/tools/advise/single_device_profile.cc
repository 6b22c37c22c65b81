#include "experiments/tools/advise/single_device_profile.h"

#include <algorithm>

#include "core/base/error.h"

namespace ringside::tools::advise {
namespace {

/// The bytes of the rank's peak other than parameters, gradients and optimizer state.
double activations_at_peak(const RunRecord& row) {
  const MemoryUse& use = row.ranks.at(0).at_peak;
  return static_cast<double>(use.total() - use[MemoryKind::parameter] - use[MemoryKind::gradient] -
                             use[MemoryKind::optimizer]);
}

}  // namespace

SingleDeviceProfile::SingleDeviceProfile(const Question& question, const runner::Simulate& simulate)
    : question_(question), simulate_(simulate) {}

bool SingleDeviceProfile::measure(const std::vector<MicroBatch>& micro_batches) {
  std::vector<MicroBatch> unknown;
  std::vector<RunPlan> plans;
  for (const MicroBatch& one : micro_batches) {
    if (known_.contains(one) || std::find(unknown.begin(), unknown.end(), one) != unknown.end())
      continue;
    unknown.push_back(one);
    plans.push_back(lone_plan(question_, one));
  }
  const std::vector<runner::RunOutcome> outcomes = simulate_(plans, question_.seconds);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (outcomes[i].interrupted) return false;
    const RunRecord& row = outcomes[i].row;
    if (row.error == runner::out_of_time)
      throw Error("one device alone takes longer than {} s to simulate; raise --seconds",
                  question_.seconds);
    if (row.status != "ok") throw Error("one device alone: {}", row.error);
    known_[unknown[i]] = {row.time_ms.compute, activations_at_peak(row)};
  }
  return true;
}

double SingleDeviceProfile::compute_ms(const MicroBatch& micro_batch) const {
  return known_.at(micro_batch).compute_ms;
}

double SingleDeviceProfile::activation_bytes(const MicroBatch& micro_batch) const {
  const auto of = [&](std::int64_t samples) {
    return known_.at({micro_batch.precision, micro_batch.recompute, samples}).activation_bytes;
  };
  return of(1) + static_cast<double>(micro_batch.samples - 1) * (of(2) - of(1));
}

}  // namespace ringside::tools::advise
