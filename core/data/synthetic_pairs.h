// Synthetic pairs of a source and a target, computed when they are read.
#pragma once

#include <cstdint>
#include <memory>

#include "core/data/dataset.h"

namespace ringside {

/// Samples of Task::target_tokens: input int32 [context + target_context], target int32
/// [target_context], which take no memory. The tokens of a source follow each other by the rule of
/// core/data/synthetic_tokens.h. The target repeats the source from its first token on, over and
/// over if it is longer: its first token, and where the source jumps, can only be learned from the
/// source. A sample depends on its number and on these arguments alone. Throws Error for a size
/// that is below 1 or too large.
std::unique_ptr<Dataset> synthetic_pairs_dataset(std::int64_t samples, std::int64_t context,
                                                 std::int64_t target_context,
                                                 std::int64_t vocabulary, std::uint64_t seed);

}  // namespace ringside
