#include "core/base/nearest.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ringside {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string in_lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  std::pair<std::size_t, std::size_t> least;
  for (const auto& candidate : known) {
    const std::pair distance(
        edit_distance(in_lower_case(std::string(name)), in_lower_case(candidate)),
        edit_distance(name, candidate));
    if (best && distance >= least) continue;
    best = &candidate;
    least = distance;
  }
  return best ? *best : "";
}

}  // namespace ringside
