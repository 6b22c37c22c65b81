#include "experiments/tools/check/resumption.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "core/checkpoint/checkpoint.h"
#include "experiments/runner/run/temporary_folder.h"
#include "experiments/tools/check/tiny_runs.h"

namespace ringside::tools::check {
namespace {

void add_named(Violations& out, const std::string& run, const Violations& found) {
  for (const std::string& one : found) out.push_back(fmt::format("{}: {}", run, one));
}

}  // namespace

Violations after_going_on(const RunPlan& plan, const std::vector<std::int64_t>& from,
                          const SchemeInfo* scheme) {
  // Runs of workers that do not wait for each other differ, but each is that of its history, which
  // begins with that of the checkpoint.
  const bool replayed = plan.promise == Promise::replayed;
  const RunRecord unbroken = replayed ? RunRecord() : run(plan, scheme);
  const auto wrong = [&](const RunRecord& row) {
    return differences(row, replayed ? run(replay_plan_of(row), scheme) : unbroken);
  };
  const runner::TemporaryFolder folder;
  RunPlan saves = plan;
  saves.checkpoint = {folder.path().string(), 1, plan.train.steps, true};
  const RunRecord saved = run(saves, scheme);
  for (const RankRecord& rank : saved.ranks)
    if (rank.checkpoints && !rank.checkpoints->failure.empty())
      throw Error("no checkpoint: {}", rank.checkpoints->failure);
  Violations out;
  add_named(out, "the run that writes checkpoints", wrong(saved));
  const auto whole = checkpoints_in(folder.path());
  for (const std::int64_t step : from) {
    // Workers that take local steps meet after whole periods of them.
    const auto found = replayed ? whole.lower_bound(step) : whole.find(step);
    if (found == whole.end()) throw Error("there is no checkpoint after step {}", step);
    RunPlan goes_on = plan;
    goes_on.resume = found->second.string();
    add_named(out, fmt::format("from the checkpoint after step {}", step),
              wrong(run(goes_on, scheme)));
  }
  return out;
}

}  // namespace ringside::tools::check
