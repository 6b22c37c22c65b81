// The speeds at which the simulated devices of a run compute its model.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "core/plan/run_plan.h"

namespace ringside::runner {

/// Seconds of virtual time that workers take for a micro-batch. Devices of one kind are timed once
/// for each size.
class MicroBatchTimes {
 public:
  /// The plan has a cluster, and must outlive this object.
  explicit MicroBatchTimes(const RunPlan& plan) : plan_(plan) {}

  /// The time of one forward and one backward, with recomputation (train.recompute), over `samples`
  /// samples on the device of worker `worker`, without other ranks, jitter and limits of memory.
  double seconds(int worker, std::int64_t samples);

 private:
  double measure(int worker, std::int64_t samples) const;

  const RunPlan& plan_;
  /// By the first machine with such devices (-1: ClusterSpec::device), slowness and samples.
  std::map<std::tuple<std::int64_t, double, std::int64_t>, double> known_;
};

/// Seconds of virtual time of a forward and a backward of each unit of the plan's model over one
/// micro-batch, on the device of worker 0, with recomputation; the last unit's has the loss too.
/// The plan has a cluster.
std::vector<double> seconds_of_units(const RunPlan& plan);

}  // namespace ringside::runner
