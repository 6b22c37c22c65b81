// Rehearsals: the memory that ranks of a run hold at their peaks, counted without a simulated
// world.
#pragma once

#include <functional>
#include <vector>

#include "core/device/ledger.h"
#include "core/plan/run_plan.h"

namespace ringside::runner {

/// Lets each worker of the plan's first replica make a step by itself: the code of the rank and its
/// scheme, on a device that counts instead of computing (core/device/counting_device.h), with peers
/// that answer at once. Returns the bytes of each kind at the moment when the worker holds most, by
/// place in the pipeline; workers with the same stages hold as much. A simulated run counts what
/// rehearsals do not: messages that are still on their way, of which a rank keeps the outputs.
///
/// Where the schedule has no more micro-batches under way for more of them in a step, only as many
/// are taken as show that. For schemes of peers without algorithms of messages and without offload,
/// whose workers form no groups of their own; throws Error for others, and what the model throws
/// for an impossible shape. Thread-safe.
std::vector<MemoryUse> rehearse(const RunPlan& plan);

using Rehearse = std::function<std::vector<MemoryUse>(const RunPlan&)>;

}  // namespace ringside::runner
