// Times what schemes do with parameters and gradients, besides training.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/run_plan.h"
#include "experiments/calibrate/timed_device.h"

namespace ringside {

/// Copies, adds up and updates pieces of the plan's parameters and gradients, as schemes do with
/// shards, buckets and chunks, one piece after the other through arrays as large as the model:
/// whether these fit into caches decides about the times. `ranks` threads of this process do so at
/// once, each on arrays of its own, and computes with `threads` threads. There are pieces of
/// `smallest_piece` elements and of powers of 4 times as many, up to the whole model. Returns the
/// operations of every rank, those of one cost once, with the medians of their times. Blocks, for
/// less than a second with models of tens of millions of parameters. Throws Error where a rank
/// cannot compute.
std::vector<std::vector<TimedOp>> time_flats(const RunPlan& plan, std::int64_t threads, int ranks);

inline constexpr std::int64_t smallest_piece = 1 << 12;

}  // namespace ringside
