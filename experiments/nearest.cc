#include "experiments/nearest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace ringside {
namespace {

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> previous(b.size() + 1), current(b.size() + 1);
  std::iota(previous.begin(), previous.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    current[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j)
      current[j + 1] =
          std::min({previous[j + 1] + 1, current[j] + 1, previous[j] + (a[i] != b[j])});
    std::swap(previous, current);
  }
  return previous.back();
}

}  // namespace

std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t least = 0;
  for (const std::string& candidate : candidates) {
    const std::size_t d = distance(name, candidate);
    if (2 * d > std::max(name.size(), candidate.size())) continue;
    if (best.empty() || d < least) {
      best = candidate;
      least = d;
    }
  }
  return best;
}

std::string suggestion(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string near = nearest(name, candidates);
  if (!near.empty()) return fmt::format("did you mean \"{}\"?", near);
  return fmt::format("known: {}", fmt::join(candidates, ", "));
}

}  // namespace ringside
