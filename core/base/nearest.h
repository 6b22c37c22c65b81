// Suggestions for misspelt names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringside {

/// Returns the known name with the smallest edit distance (Levenshtein) to `name`, the first one if
/// several are equally near, and an empty string if `known` is empty.
std::string nearest(std::string_view name, const std::vector<std::string>& known);

}  // namespace ringside
