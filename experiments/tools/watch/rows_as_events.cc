#include "experiments/tools/watch/rows_as_events.h"

#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/plan/kept_plan.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/results/attempts.h"
#include "experiments/runner/results/saved_results.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

/// The runs of plan.json; those of the rows if it cannot be read.
std::vector<RunPlan> runs_of(const SavedResults& results, std::vector<std::string>& complaints) {
  std::vector<RunPlan> runs;
  try {
    if (!results.plan.empty()) {
      const auto plan = nlohmann::json::parse(results.plan);
      for (const nlohmann::json& run : plan.at("runs"))
        runs.push_back(kept_plan_from_json(run, default_options));
    }
  } catch (const std::exception& error) {
    complaints.push_back(fmt::format("{}: the plans of runs cannot be read: {}",
                                     (results.folder / "plan.json").string(), error.what()));
    runs.clear();
  }
  if (runs.empty())
    for (const RunRecord* row : rows_that_count(results.rows)) runs.push_back(row->plan);
  std::stable_sort(runs.begin(), runs.end(),
                   [](const RunPlan& a, const RunPlan& b) { return a.place < b.place; });
  return runs;
}

double last_written(const fs::path& file) {
  struct stat there {};
  return stat(file.c_str(), &there) == 0 ? static_cast<double>(there.st_mtime) : 0;
}

}  // namespace

std::vector<ProgressEvent> rows_as_events(const fs::path& folder,
                                          std::vector<std::string>& complaints) {
  const SavedResults results = read_results(folder);
  complaints.insert(complaints.end(), results.complaints.begin(), results.complaints.end());
  const double time = last_written(folder / "rows.jsonl");
  ComparisonBegan began{.experiment = results.name};
  std::set<std::string> missing;
  for (const RunPlan& run : runs_of(results, complaints)) {
    began.runs.push_back(planned_run(run));
    missing.insert(run.id);
  }
  if (began.runs.empty())
    throw Error("{}: no run can be shown: {}", folder.string(),
                complaints.empty() ? "the folder has no rows" : complaints.front());
  std::vector<ProgressEvent> out = {{time, std::move(began)}};
  const std::vector<const RunRecord*> counting = rows_that_count(results.rows);
  for (const RunRecord& row : results.rows) {
    RunEnded ended = run_ended(row);
    ended.counts = std::find(counting.begin(), counting.end(), &row) != counting.end();
    out.push_back({time, std::move(ended)});
    missing.erase(row.plan.id);
  }
  if (!missing.empty()) return out;
  const auto failed = std::count_if(counting.begin(), counting.end(),
                                    [](const RunRecord* row) { return row->status != "ok"; });
  ComparisonEnded end{.folder = folder.string()};
  if (failed > 0) {
    end.status = ComparisonStatus::failed;
    end.error = fmt::format("{} of {} runs failed", failed, counting.size());
  }
  out.push_back({time, std::move(end)});
  return out;
}

}  // namespace ringside
