// The scheme that docs/extending.md builds passes the suite that it recommends.
#include <gtest/gtest.h>

#include "tests/schemes/conformance.h"
#include "tests/schemes/tutorial_scheme.h"

namespace ringside::runner {
namespace {

/// The row of the tutorial's scheme, which takes the plans of `ddp`.
SchemeInfo all_at_once() {
  SchemeInfo row = find_scheme("ddp");
  row.make = [](const RankContext& context, const Options&) -> std::unique_ptr<SyncScheme> {
    return std::make_unique<testing::AllAtOnce>(context);
  };
  return row;
}

TEST(Tutorial, AllReduceAtOnceIsBitIdenticalToSingle) {
  const SchemeInfo row = all_at_once();
  for (const int world : {1, 2, 3, 4})
    for (auto config : {testing::accumulating(), testing::evaluating()}) {
      SCOPED_TRACE(world);
      config.optimizer.clip_norm = 0.5;
      const RunRecord run = testing::run(plan_training(config, "ddp", world), &row);
      EXPECT_EQ(testing::violations(run, testing::reference_of(config, world)),
                testing::Violations{});
    }
}

TEST(Tutorial, ReducesAfterEveryMicroBatchAsDdpDoes) {
  const SchemeInfo row = all_at_once();
  auto config = testing::accumulating();
  config.train.reduce = Reduce::every;
  const RunPlan plan = plan_training(config, "ddp", 3);
  EXPECT_EQ(testing::violations(testing::run(plan, &row), testing::run(plan)),
            testing::Violations{});
}

}  // namespace
}  // namespace ringside::runner
