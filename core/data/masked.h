// Pairs of sentences with hidden tokens (Devlin et al. 2018, section 3.1).
#pragma once

#include <cstdint>
#include <memory>

#include "core/data/dataset.h"

namespace ringside {

/// The last three numbers of a vocabulary stand for [CLS], [SEP] and [MASK], in that order.
inline constexpr std::int64_t special_tokens = 3;

/// Tokens of a pair: room for [CLS] first [SEP] second [SEP] in `context`. Throws Error for a
/// context that is too short for two words, or a vocabulary without room for the special tokens.
std::int64_t pair_length(std::int64_t context, std::int64_t vocabulary);

/// Samples of Task::masked_tokens: input int32 [2 T + P], target int32 [P + 1], with T = context
/// and P = masked_positions(T). The pair is one sample of `plain`, whose inputs have pair_length
/// tokens below vocabulary - 3, cut in the middle; half of the time the second half is another
/// sample's (target 1). Hidden are positions of both, in ascending order, of which 80% read [MASK],
/// 10% a token at random and 10% what they are. All of it is drawn by (seed, sample). Throws
/// Error where not as many tokens as `masked` can be hidden.
std::unique_ptr<Dataset> masked_dataset(std::unique_ptr<Dataset> plain, std::int64_t context,
                                        std::int64_t vocabulary, std::int64_t masked,
                                        std::uint64_t seed);

}  // namespace ringside
