// Tables of pipelines and their stages.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/runner/report/report_tables.h"

namespace ringside::runner {
namespace {

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

/// "-" where the schedule has no such actions.
std::string action_cell(double ms) { return ms > 0 ? fmt::format("{:.2f}", ms) : "-"; }

/// "-" in results that are older than the figure: what sends something has to.
std::string least_cell(const DimensionBytes& bytes) {
  return bytes.minimum > 0 || bytes.sent == 0 ? megabytes(bytes.minimum) : "-";
}

TableLine pipeline_line(const CaseSummary& one) {
  const PipelineSummary& summary = *one.pipeline;
  return {one.label(),
          std::to_string(one.plan.world),
          summary.schedule,
          std::to_string(summary.micro_batches),
          percent(summary.bubble),
          summary.bubble_by_formula ? percent(*summary.bubble_by_formula) : "-",
          milliseconds(summary.waiting_ms),
          milliseconds(summary.uneven_ms),
          milliseconds(summary.sends_ms),
          fmt::format("{:.2f}", summary.imbalance),
          megabytes(summary.data.sent),
          least_cell(summary.data),
          megabytes(summary.pipeline.sent),
          megabytes(summary.pipeline.minimum),
          one.plan.pipeline.post_validation ? std::to_string(summary.put_right) : "-"};
}

/// What a rank has, not each of its stages, stands in the line of its first stage alone.
TableLine stage_line(const CaseSummary& one, const StageSummary& stage, bool is_first) {
  TableLine line = {one.label(),
                    std::to_string(one.plan.world),
                    std::to_string(stage.stage),
                    std::to_string(stage.rank),
                    action_cell(stage.forward_ms),
                    action_cell(stage.backward_ms),
                    action_cell(stage.input_gradient_ms),
                    action_cell(stage.weight_gradient_ms),
                    std::to_string(stage.under_way),
                    std::to_string(stage.in_flight)};
  if (!is_first) {
    line.insert(line.end(), {"", "", ""});
    return line;
  }
  const PipelinePlace& place = one.pipeline->places.at(static_cast<std::size_t>(stage.rank));
  line.insert(line.end(),
              {percent(place.bubble), place.activation > 0 ? megabytes(place.activation) : "-",
               megabytes(place.activation_by_formula)});
  return line;
}

}  // namespace

std::vector<TableLine> pipelines_table(const std::vector<CaseSummary>& cases) {
  std::vector<TableLine> lines = {{"scheme", "world", "schedule", "micro-batches", "bubble",
                                   "bubble formula", "waiting ms", "uneven", "sends", "imbalance",
                                   "MB data", "least data", "MB stages", "least stages",
                                   "put right"}};
  for (const CaseSummary& one : cases)
    if (one.pipeline) lines.push_back(pipeline_line(one));
  return lines.size() > 1 ? lines : std::vector<TableLine>{};
}

std::vector<TableLine> stages_table(const std::vector<CaseSummary>& cases) {
  std::vector<TableLine> lines = {{"scheme", "world", "stage", "rank", "F ms", "B ms", "I ms",
                                   "W ms", "under way", "in flight", "bubble", "activation MB",
                                   "activation formula"}};
  for (const CaseSummary& one : cases) {
    if (!one.pipeline) continue;
    const std::vector<StageSummary>& stages = one.pipeline->stages;
    for (auto stage = stages.begin(); stage != stages.end(); ++stage) {
      const bool is_first = std::none_of(stages.begin(), stage, [&](const StageSummary& before) {
        return before.rank == stage->rank;
      });
      lines.push_back(stage_line(one, *stage, is_first));
    }
  }
  return lines.size() > 1 ? lines : std::vector<TableLine>{};
}

}  // namespace ringside::runner
