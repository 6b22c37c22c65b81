// Checks of options of compression against a plan.
#pragma once

#include "core/compress/compression.h"
#include "core/plan/run_plan.h"

namespace ringside {

/// Throws Error for options of a compressor that are not possible with the plan, whose scheme has
/// them. A scheme that compresses the gradients of `each_micro_batch` goes with train.reduce =
/// "every".
void check_compression(const CompressionOptions& options, const RunPlan& plan,
                       bool each_micro_batch = false);

}  // namespace ringside
