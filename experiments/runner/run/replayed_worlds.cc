#include "experiments/runner/run/replayed_worlds.h"

#include <filesystem>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/plan/definition.h"
#include "core/plan/same_run.h"
#include "core/plan/worlds.h"
#include "core/scheme/single.h"
#include "experiments/runner/run/going_on.h"
#include "experiments/runner/run/temporary_folder.h"

namespace ringside::runner {
namespace {

/// The definition of the run at the world of its plan.
RunPlan definition_at(const RunPlan& run) {
  RunPlan plan = definition_of(run);
  if (has_own_definition(run)) return plan;
  plan.scheme = reference_scheme;
  plan.options = SingleOptions{.replicas = run.world};
  plan.promise = Promise::same_run;
  plan.defines = 0;
  plan.train.reduce = Reduce::last;
  return plan;
}

/// Where all hosts of the run see what a replay leaves: beside the run's own checkpoints if it has
/// several hosts. Its replay may be on any.
std::filesystem::path folder_of_replays(const RunPlan& run) {
  if (run.homes.empty() || run.checkpoint.path.empty())
    return std::filesystem::temp_directory_path();
  return std::filesystem::path(run.checkpoint.path).parent_path();
}

}  // namespace

std::optional<Replay> replay_worlds(
    const RunRecord& row, const std::function<std::optional<RunRecord>(const RunPlan&)>& make) {
  const TemporaryFolder folder(folder_of_replays(row.plan));
  const std::vector<WorldPeriod>& worlds = row.worlds;
  std::string resume;
  for (std::size_t i = 0; i < worlds.size(); ++i) {
    const bool last = i + 1 == worlds.size();
    if (!last && worlds[i + 1].from == worlds[i].from) continue;  // no step of it counts
    RunPlan plan = definition_at(at_world(row.plan, worlds[i].world));
    plan.id = fmt::format("{}-replay-{}", row.plan.id, i);
    plan.listing.label = row.plan.listing.label + " (replay)";
    plan.resume = resume;
    if (!last) {
      plan.until = worlds[i + 1].from;
      plan.checkpoint = {.path = folder.path().string(), .keep = 1, .asynchronous = false};
    }
    const std::optional<RunRecord> part = make(plan);
    if (!part) return {};
    if (last || part->status != "ok")
      return Replay{part->parameter_hashes, part->loss, part->evaluations, part->error};
    resume = newest_checkpoint(plan);
  }
  throw Error("run {} has no world", row.plan.id);
}

}  // namespace ringside::runner
