// Tokens made on the spot.
#pragma once

#include <cstdint>
#include <memory>

#include "core/data/dataset.h"

namespace ringside {

/// Samples of `context` tokens below `vocabulary` (int32 [context]) that cost no memory: token t of
/// a sample is drawn by (seed, sample, t) alone. Seven of eight tokens are the number after the
/// one before them (0 after the last), the others are any: what can be learned, and the loss that
/// is left in the end, are known. Targets are the tokens that follow each position (int32
/// [context]), or only the last one (int32 [1]). Throws Error for a size below 1.
std::unique_ptr<Dataset> synthetic_dataset(std::int64_t samples, std::int64_t context,
                                           std::int64_t vocabulary, Task task, std::uint64_t seed);

}  // namespace ringside
