// The one exception type of the project.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace ringside {

/// An error, told in one line that names the place, the cause and what to do. The rank is added to
/// the line once, where a rank's work ends (experiments/runner/run/rank.h).
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;

  template <class... Args>
  explicit Error(fmt::format_string<Args...> format, Args&&... args) requires(sizeof...(Args) > 0)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

}  // namespace ringside
