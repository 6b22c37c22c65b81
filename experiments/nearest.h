// Which name somebody meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringside {

/// The candidate with the fewest insertions, deletions and replacements of a character from `name`
/// (Levenshtein 1966, two rows of the table; the first of equals), or an empty text if none is
/// close enough to be a slip of the fingers: at most half of the longer name differs.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

/// The end of an error line about an unknown name: `did you mean "steps"?`, and without a near
/// one `known: steps, warmup`.
std::string suggestion(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace ringside
