// Names of schemes, models and algorithms as parts of the names of tests.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace ringside::testing {

/// The name with '_' for all that GoogleTest does not allow in the name of a test, as '-'.
inline std::string name_in_tests(std::string_view given) {
  std::string name(given);
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  std::replace_if(
      name.begin(), name.end(), [&](char c) { return !allowed(c); }, '_');
  return name;
}

}  // namespace ringside::testing
