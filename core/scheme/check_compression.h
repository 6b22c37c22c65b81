// Checks of options of compression against a plan, and against what compresses nothing.
#pragma once

#include <string_view>
#include <vector>

#include "core/compress/compression.h"
#include "core/plan/run_plan.h"
#include "core/scheme/identity.h"

namespace ringside {

/// Throws Error for options of a compressor that are not possible with the plan, whose scheme has
/// them. A scheme that compresses the gradients of `each_micro_batch` goes with train.reduce =
/// "every".
void check_compression(const CompressionOptions& options, const RunPlan& plan,
                       bool each_micro_batch = false);

/// What a scheme that compresses gradients must equal, with every compressor that can lose nothing
/// (CompressorInfo::lossless): `single`.
std::vector<Identity> lossless_identities(std::string_view scheme);

}  // namespace ringside
