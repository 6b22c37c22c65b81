#include "experiments/runner/results/attempts.h"

#include <algorithm>
#include <map>

namespace ringside::runner {
namespace {

/// Whether attempt `a` counts instead of the earlier attempt `b`.
bool counts_rather(const RunRecord& a, const RunRecord& b) {
  if (b.status != "ok") return false;
  return a.status != "ok" || lost_share(a) < lost_share(b);
}

}  // namespace

int attempts(const std::vector<RunRecord>& rows, const std::string& run) {
  return static_cast<int>(std::count_if(rows.begin(), rows.end(),
                                        [&](const RunRecord& row) { return row.plan.id == run; }));
}

bool finished(const std::vector<RunRecord>& rows, const std::string& run, int most) {
  return attempts(rows, run) >= most ||
         std::any_of(rows.begin(), rows.end(), [&](const RunRecord& row) {
           return row.plan.id == run && disturbance(row).empty();
         });
}

std::vector<const RunRecord*> rows_that_count(const std::vector<RunRecord>& rows) {
  std::vector<const RunRecord*> out;
  std::map<std::string, std::size_t> place;
  for (const RunRecord& row : rows) {
    const auto [known, is_new] = place.emplace(row.plan.id, out.size());
    if (is_new)
      out.push_back(&row);
    else if (counts_rather(row, *out[known->second]))
      out[known->second] = &row;
  }
  return out;
}

}  // namespace ringside::runner
