// Identities: runs of a scheme that must equal runs of another scheme, as the scheme's info says. A
// definition that shares a mistake with its scheme does not show the mistake; an identity does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/tools/check/scheme_checks.h"
#include "peer/schemes/diloco.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/wrong_schemes.h"

namespace ringside::runner {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;
using testing::run;
using tools::check::broken;

TEST(Identities, ShowAWorkerThatIsForgotten) {
  const SchemeInfo wrong = testing::forgetting_last_worker("local_sgd");
  EXPECT_THAT(broken(wrong.identities[0], wrong, 3, testing::text_path()), Not(IsEmpty()));
}

/// The mistake is in what the scheme and its definition share: the two agree.
TEST(Identities, ShowTheWrongSignOfAnOuterStep) {
  const SchemeInfo wrong = testing::misled<peer::DilocoOptions>(
      "diloco", [](peer::DilocoOptions& own) { own.outer_lr = -own.outer_lr; }, true);
  auto config = testing::tiny("mlp");
  config.scheme_options["diloco"] = peer::DilocoOptions{.sync_every = 2};
  const RunPlan plan = plan_training(config, "diloco", 2);
  EXPECT_THAT(testing::violations(run(plan, &wrong), run(plan_definition(plan), &wrong)),
              IsEmpty());
  for (const std::size_t identity : {0, 1})
    EXPECT_THAT(broken(wrong.identities[identity], wrong, 2, testing::text_path()), Not(IsEmpty()))
        << identity;
}

}  // namespace
}  // namespace ringside::runner
