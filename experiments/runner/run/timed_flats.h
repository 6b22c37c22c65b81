// Timing of a scheme's operations on parameters and gradients, outside forward and backward.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/device/timed_device.h"
#include "core/plan/run_plan.h"

namespace ringside::runner {

inline constexpr std::int64_t smallest_piece = 1 << 12;

/// Copies, adds up and updates pieces of `count` parameters and gradients of the plan's model, as
/// schemes do with shards, buckets and chunks. It goes piece by piece through arrays as large as
/// the model, because the times depend on whether these fit into caches. There are pieces of
/// `smallest_piece` elements and of powers of 4 times as many, up to the whole model. Calls `meet`
/// before each kind of pieces; there ranks that do the same at the same time wait for each other.
/// Returns the operations, those of one cost once, with the medians of their times. Blocks, for
/// less than a second with models of tens of millions of parameters.
std::vector<TimedOp> time_flats(const RunPlan& plan, TimedDevice& device, std::int64_t count,
                                const std::function<void()>& meet);

}  // namespace ringside::runner
