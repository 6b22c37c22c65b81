#include "experiments/runner/report/diff_lines.h"

#include "experiments/runner/results/attempts.h"

namespace ringside::runner {

static LineName name_of_line(const RunPlan& plan) {
  return {plan.listing.label, plan.world, plan.purpose};
}

Lines lines_of(const SavedResults& results) {
  Lines out;
  for (CaseSummary& summary : summarise(results.rows)) {
    if (summary.plan.purpose == Purpose::reference) continue;
    LineName name{summary.label(), summary.plan.world, summary.plan.purpose};
    out.push_back({std::move(name), {std::move(summary), {}}});
  }
  for (const RunRecord* row : rows_that_count(results.rows)) {
    if (row->status != "ok") continue;
    for (auto& [name, line] : out)
      if (name == name_of_line(row->plan)) line.finished.push_back(row);
  }
  return out;
}

}  // namespace ringside::runner
