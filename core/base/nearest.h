// Suggestions for misspelt names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringside {

/// Returns the known name with the smallest edit distance (Levenshtein) to `name`: without regard
/// to case, and of those equally near the one that is nearest with it, or the first. Returns an
/// empty string if `known` is empty.
std::string nearest(std::string_view name, const std::vector<std::string>& known);

}  // namespace ringside
