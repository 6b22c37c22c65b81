// Synthetic tokens, computed when they are read.
#pragma once

#include <cstdint>
#include <memory>

#include "core/data/dataset.h"

namespace ringside {

/// Samples of `context` tokens below `vocabulary` (int32 [context]), which take no memory. A sample
/// depends on its number and on these arguments alone. Tokens follow each other by the rule of
/// core/data/synthetic_tokens.h, so it is known what a model can learn, and which loss it cannot go
/// below. The targets are the next token at every position (int32 [context]), or at the last
/// position only (int32 [1]). Throws Error for a size that is below 1 or too large.
std::unique_ptr<Dataset> synthetic_dataset(std::int64_t samples, std::int64_t context,
                                           std::int64_t vocabulary, Task task, std::uint64_t seed);

}  // namespace ringside
