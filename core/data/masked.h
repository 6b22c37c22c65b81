// Pairs of sentences with hidden tokens (Devlin et al. 2018, section 3.1).
#pragma once

#include <cstdint>
#include <memory>

#include "core/data/dataset.h"

namespace ringside {

/// The last three token numbers of a vocabulary stand for [CLS], [SEP] and [MASK], in that order.
inline constexpr std::int64_t special_tokens = 3;

/// Number of ordinary tokens in a pair of sentences: `context` less [CLS] and two [SEP]. Throws
/// Error if `context` has no room for two ordinary tokens, or if `vocabulary` has no tokens besides
/// the special ones.
std::int64_t pair_length(std::int64_t context, std::int64_t vocabulary);

/// Samples of Task::masked_tokens: input int32 [2 * T + P], target int32 [P + 1], with T = context
/// and P = masked. A pair is one sample of `plain`, cut in the middle. The inputs of `plain` must
/// have pair_length() tokens below vocabulary - 3. In half of the pairs the second half comes from
/// another sample (target 1). The positions to predict are chosen from both halves and listed in
/// ascending order. Of these positions 80% hold [MASK], 10% a random token and 10% their own token.
/// All choices depend on (seed, sample) alone. Throws Error if `masked` is not in
/// [1, pair_length()].
std::unique_ptr<Dataset> masked_dataset(std::unique_ptr<Dataset> plain, std::int64_t context,
                                        std::int64_t vocabulary, std::int64_t masked,
                                        std::uint64_t seed);

}  // namespace ringside
