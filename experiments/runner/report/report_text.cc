// A summary as text: its remarks, and its tables one below the other.
#include <fmt/ranges.h>

#include <algorithm>

#include "core/plan/mesh.h"
#include "core/plan/pipeline_plan.h"
#include "core/plan/same_run.h"
#include "experiments/runner/report/assumed.h"
#include "experiments/runner/report/summary_tables.h"

namespace ringside::runner {
namespace {

bool any_simulated(const std::vector<CaseSummary>& cases) {
  return std::any_of(cases.begin(), cases.end(),
                     [](const CaseSummary& one) { return one.simulated(); });
}

std::string plugins_text(const std::vector<CaseSummary>& cases) {
  std::vector<std::string> plugins;
  for (const CaseSummary& one : cases)
    for (const PluginFile& plugin : one.plan.plugins) {
      std::string text = fmt::format("{} (hash {})", plugin.file, plugin.hash);
      if (std::find(plugins.begin(), plugins.end(), text) == plugins.end())
        plugins.push_back(std::move(text));
    }
  return plugins.empty() ? "" : fmt::format("Plug-ins: {}.\n", fmt::join(plugins, ", "));
}

std::string ties_text(const std::vector<CaseSummary>& cases) {
  std::vector<std::string> groups;
  for (const Tie& tie : ties(cases))
    groups.push_back(fmt::format("{} (world {})", fmt::join(tie.labels, ", "), tie.world));
  if (groups.empty()) return {};
  return fmt::format("Not ranked, because their speed-ups have overlapping intervals: {}.{}\n",
                     fmt::join(groups, "; "),
                     any_simulated(cases) ? "" : " More repeats may tell them apart.");
}

}  // namespace

/// Names the rows that were simulated, all or those that the table marks, and the assumptions
/// there.
std::string simulated_text(const std::vector<CaseSummary>& cases) {
  std::vector<std::string> clusters;
  std::vector<AssumedOf> assumed;
  bool all = true;
  for (const CaseSummary& one : cases) {
    all = all && one.simulated();
    if (!one.simulated()) continue;
    const std::string& cluster = one.plan.cluster->name;
    assumed.push_back({cluster, one.plan.cluster->assumed});
    if (std::find(clusters.begin(), clusters.end(), cluster) == clusters.end())
      clusters.push_back(cluster);
  }
  if (clusters.empty()) return {};
  const std::string on =
      fmt::format("SIMULATED on cluster {}: virtual time; ", fmt::join(clusters, " and cluster "));
  return on +
         (all ? "nothing here was measured.\n"
              : "only rows without the word SIMULATED in their last column were measured.\n") +
         assumed_text(assumed);
}

/// The limits of this comparison in particular, with their reasons.
std::string remarks_text(const std::vector<CaseSummary>& cases) {
  std::string out = plugins_text(cases) + ties_text(cases);
  const auto with_speed_up = [](const CaseSummary& one) { return one.speed_up.median >= 0; };
  if (std::none_of(cases.begin(), cases.end(), with_speed_up) &&
      std::none_of(cases.begin(), cases.end(), [](const CaseSummary& one) {
        return one.plan.scheme == reference_scheme && one.plan.purpose == Purpose::asked;
      }))
    out +=
        "No speed-up: `single` was not compared (a reference run is made once, on a machine that "
        "is still cold, so its speed does not count); add `single` to compare.schemes.\n";
  if (!any_simulated(cases) && std::any_of(cases.begin(), cases.end(), with_speed_up) &&
      std::none_of(cases.begin(), cases.end(),
                   [](const CaseSummary& one) { return one.speed_up.interval.has_value(); }))
    out +=
        "One repeat: speed-ups have no interval, and small differences between them say nothing; "
        "set compare.repeats.\n";
  if (std::any_of(cases.begin(), cases.end(),
                  [](const CaseSummary& one) { return one.plan.listing.quick; }))
    out +=
        "Quick (--quick): each run was made once, also if other work disturbed it, and none on all "
        "cores.\n";
  if (std::any_of(cases.begin(), cases.end(),
                  [](const CaseSummary& one) { return one.other_batch; }))
    out +=
        "Some cases have another global batch than the `single` that they are compared with: their "
        "speed-ups are per sample, and do not say how soon the same loss is reached.\n";
  int superseded = 0, disturbed = 0;
  for (const CaseSummary& one : cases) {
    superseded += one.runs.superseded;
    disturbed += one.runs.disturbed;
  }
  if (superseded > 0 || disturbed > 0)
    out += fmt::format(
        "disturbed: other work on this machine disturbed a run. Such a run is made again, up to "
        "compare.attempts times, and its quietest attempt counts. Attempts that do not count: {}. "
        "Runs without a quiet attempt, "
        "whose figures are doubtful: {}.\n",
        superseded, disturbed);
  for (const CaseSummary& one : cases)
    if (has_pipeline(one.plan))
      out += fmt::format("Mesh: {} at world {}: {}; {}.\n", one.label(), one.plan.world,
                         mesh_text(one.plan), pipeline_text(one.plan));
  for (const CaseSummary& one : cases)
    if (const std::string remark = recomputation_remark(one.plan); !remark.empty())
      out +=
          fmt::format("Recomputation: {} at world {}: {}.\n", one.label(), one.plan.world, remark);
  for (const CaseSummary& one : cases)
    if (one.runs.disturbed > 0)
      out += fmt::format("Disturbed: {} at world {}: {}.\n", one.label(), one.plan.world,
                         one.runs.disturbance);
  for (const CaseSummary& one : cases)
    for (const std::string& how : one.reports.lost_workers)
      out += fmt::format("Lost: {} at world {} went on although {}.\n", one.label(), one.plan.world,
                         how);
  for (const CaseSummary& one : cases)
    for (const std::string& worlds : one.reports.worlds)
      out += fmt::format("Worlds: {} had world {}. Its times are those of the last world.\n",
                         one.label(), worlds);
  for (const CaseSummary& one : cases)
    if (!one.prediction_failure.empty())
      out += fmt::format("No prediction of {} at world {}: {}\n", one.label(), one.plan.world,
                         one.prediction_failure);
  return out;
}

std::string summary_text(const std::vector<CaseSummary>& cases) {
  std::string out = simulated_text(cases);
  if (!out.empty()) out += "\n";
  for (const SummaryTable& table : summary_tables(cases)) {
    if (!table.in_text) continue;
    const bool first = table.id == "figures";
    if (!first) out += "\n";
    out += text_table(table.lines);
    if (!table.note.empty()) out += "\n" + table.note;
    if (!first) continue;
    if (const std::string remarks = remarks_text(cases); !remarks.empty()) out += "\n" + remarks;
  }
  return out;
}

}  // namespace ringside::runner
