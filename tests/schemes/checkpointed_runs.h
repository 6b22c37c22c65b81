// Small runs that write checkpoints, and go on from them.
#pragma once

#include <gtest/gtest.h>

#include "core/checkpoint/checkpoint.h"
#include "experiments/runner/run/going_on.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/temporary_folder.h"

namespace ringside::testing {

/// The run, which writes a checkpoint after every step into the folder; of the plan's scheme, or of
/// `scheme`.
inline RunRecord saving(RunPlan plan, const TemporaryFolder& folder, bool asynchronous = true,
                        const SchemeInfo* scheme = nullptr) {
  plan.checkpoint = {folder.path().string(), 1, 100, asynchronous};
  RunRecord row = run(plan, scheme);
  for (const RankRecord& rank : row.ranks) {
    EXPECT_TRUE(rank.checkpoints.has_value());
    if (!rank.checkpoints) continue;
    EXPECT_EQ(rank.checkpoints->failure, "");
    EXPECT_EQ(rank.checkpoints->written, plan.train.steps);
  }
  EXPECT_EQ(static_cast<std::int64_t>(checkpoints_in(folder.path()).size()), plan.train.steps);
  return row;
}

/// The run that goes on from the checkpoint after `step` steps.
inline RunRecord going_on(RunPlan plan, const TemporaryFolder& folder, std::int64_t step,
                          const SchemeInfo* scheme = nullptr) {
  plan.resume = checkpoints_in(folder.path()).at(step).string();
  runner::check_same_run(plan, plan.resume);
  return run(plan, scheme);
}

}  // namespace ringside::testing
