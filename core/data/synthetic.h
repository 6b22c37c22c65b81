// Synthetic tokens, computed when they are read.
#pragma once

#include <cstdint>
#include <memory>

#include "core/data/dataset.h"

namespace ringside {

/// Samples of `context` tokens below `vocabulary` (int32 [context]), which take no memory. Token t
/// of a sample depends on (seed, sample, t) alone. Seven of eight tokens are the preceding token
/// plus 1 (0 after the largest token); the others are random. So it is known what a model can learn
/// and below which loss it cannot come. Targets are the tokens that follow each position (int32
/// [context]), or only the last one (int32 [1]). Throws Error for a size below 1.
std::unique_ptr<Dataset> synthetic_dataset(std::int64_t samples, std::int64_t context,
                                           std::int64_t vocabulary, Task task, std::uint64_t seed);

}  // namespace ringside
