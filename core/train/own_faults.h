// OwnFaults: the faults on purpose that strike within a worker's steps.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/faults.h"
#include "core/scheme/scheme.h"

namespace ringside {

/// The faults of a worker that no signal can bring about: it hangs, its data is poisoned, a bit of
/// its parameters flips. Slow workers have Slowdown. A poison belongs to the data, so it strikes
/// whenever its step is made; the others strike once in a run (FaultsConfig::struck).
class OwnFaults {
 public:
  /// The plan is that of all stages, and the worker's number is the one that it has there.
  OwnFaults(const RunPlan& plan, int worker);

  /// Before a step, counted from 0: a worker that hangs does not return. Where any worker's bit
  /// flips, this is collective: all call it, and it visits the parameters.
  void begin_step(std::int64_t step, SyncScheme& scheme, Device& device) const;
  /// Sets the model's output to NaN for micro-batches of the pass that are poisoned. A rank that
  /// stands for several workers has the micro-batches of one after the other.
  void poison(Device& device, const Tensor& output, const Pass& pass) const;

 private:
  struct Poison {
    std::int64_t step = 0, micro_batch = 0;  // of the rank, or of its replica of the model
  };

  int worker_;
  std::vector<Poison> poisons_;
  std::vector<Fault> others_;  // of all workers, but for those that have struck
};

}  // namespace ringside
