// The feed of a rank that another program runs (RunPlan::program): initial values, batches and
// learning rates.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "core/plan/run_plan.h"

namespace ringside::runner {

/// Makes the inputs of a rank, so that another program need not make them: initial values, batches
/// and learning rates. Calls `write` with a stream of messages. A message is a line of JSON that
/// says its "kind" and how many "bytes" follow it; these are a file of safetensors:
///
///   "start"     the initial values and running statistics, by the names in
///               core/models/tensor_names.h. The line also has "record", a RankRecord with the
///               members that are known already; a "step" and a "slice" as such a record lists
///               them, without values; and "evaluated", the number of global batches that an
///               evaluation reads
///   "held-out"  "inputs" and "targets" (core/data/loader.h) of a micro-batch of an evaluation
///   "training"  those of a micro-batch of a step; the line has the step's learning rate, "lr"
///
/// Held-out micro-batches come once, batch by batch; then come those of training, step by step. If
/// one process runs all ranks, every micro-batch comes as one message for each worker. The rank of
/// a definition (RunPlan::defines) gets those of a step one worker after the other. Throws Error
/// for data that such a program cannot use, and every exception of `write`. Blocks until all is
/// written.
void feed(const RunPlan& plan, int rank,
          const std::function<void(std::span<const std::byte>)>& write);

}  // namespace ringside::runner
