// Help for a misspelt name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringside {

/// The known name with the smallest edit distance (Levenshtein), the first of equals; empty if
/// there are none.
std::string nearest(std::string_view name, const std::vector<std::string>& known);

}  // namespace ringside
