// Times the operations of training steps.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/run_plan.h"
#include "experiments/calibrate/timed_device.h"

namespace ringside {

struct TimedStep {
  std::vector<TimedOp> ops;     // of one step in order, each with the medians of its times
  std::vector<double> seconds;  // of each whole step
};

/// Leaves out steps with fewer operations than others, and their `seconds`: a step whose gradients
/// overflow in fp16 has no update.
void leave_out_short(std::vector<std::vector<TimedOp>>& steps, std::vector<double>& seconds);

struct Repetition {
  int ranks = 1;            // that train at once, each by itself; they begin together
  std::int64_t warmup = 2;  // steps that are not timed
  std::int64_t steps = 9;   // that are timed
};

/// Trains the plan's model by `single`, in one thread of this process for each rank, each of which
/// computes with `threads` threads. Returns what each rank did. Blocks. Throws Error where a rank
/// cannot train.
std::vector<TimedStep> time_training(const RunPlan& plan, std::int64_t threads,
                                     const Repetition& repetition);

}  // namespace ringside
