#include "experiments/runner/results/attempts.h"

#include <algorithm>
#include <map>

namespace ringside {
namespace {

/// Whether attempt `a` counts instead of the earlier attempt `b`.
bool counts_rather(const Row& a, const Row& b) {
  if (b.status != "ok") return false;
  return a.status != "ok" || lost_share(a) < lost_share(b);
}

}  // namespace

int attempts(const std::vector<Row>& rows, const std::string& run) {
  return static_cast<int>(
      std::count_if(rows.begin(), rows.end(), [&](const Row& row) { return row.plan.id == run; }));
}

bool finished(const std::vector<Row>& rows, const std::string& run, int most) {
  return attempts(rows, run) >= most || std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
           return row.plan.id == run && disturbance(row).empty();
         });
}

std::vector<const Row*> rows_that_count(const std::vector<Row>& rows) {
  std::vector<const Row*> out;
  std::map<std::string, std::size_t> place;
  for (const Row& row : rows) {
    const auto [known, is_new] = place.emplace(row.plan.id, out.size());
    if (is_new)
      out.push_back(&row);
    else if (counts_rather(row, *out[known->second]))
      out[known->second] = &row;
  }
  return out;
}

}  // namespace ringside
