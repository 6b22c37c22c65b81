// Wrong schemes must fail what every scheme must pass, by the name of what is wrong, and a report
// must call them different.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/verdict.h"
#include "peer/averaging.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/schemes/wrong_schemes.h"

namespace ringside {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::forgetting_last_worker;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Matcher;
using ::testing::StartsWith;
using testing::tiny;
using testing::Violations;
using testing::violations;
using testing::wrapping;

using Text = Matcher<const std::string&>;

Text parameters_of(int replica) {
  return fmt::format("the parameters of replica {} differ from the definition's", replica);
}
Text loss_of(int step) {
  return AllOf(StartsWith(fmt::format("the loss of step {} is ", step)),
               HasSubstr(", but the definition's is "));
}
Text evaluation_after(int step) {
  return StartsWith(fmt::format("the evaluation after step {} differs: its loss is ", step));
}

/// What is found about a run of two workers.
struct Findings {
  Violations violations;
  Proof proof;
};

/// Runs `scheme` as the plan of the scheme `name`, and holds it against the definition.
Findings find(ExperimentConfig config, const SchemeRow& scheme, std::int64_t sync_every = 1) {
  const std::string name(scheme.name);
  config.scheme_options["averaging"] = peer::AveragingOptions{.sync_every = sync_every};
  const Row row = testing::run(plan_training(config, name, 2), &scheme);
  const Row definition = testing::definition_of(config, name, 2);
  return {violations(row, definition), verdict({&row}, {row, definition}).proof};
}

/// Faults in a scheme that promises the run of `single`, and in one that has its own definition.
class WrongSchemes : public ::testing::TestWithParam<std::string> {
 protected:
  bool exact() const { return default_promise(find_scheme(GetParam())) == Promise::same_run; }
  /// The parameters of all replicas, and the losses from a step to the fifth, which is the last.
  std::vector<Text> everything_from(int step) const {
    std::vector<Text> out = {parameters_of(0)};
    if (!exact()) out.push_back(parameters_of(1));
    for (; step <= 5; ++step) out.push_back(loss_of(step));
    return out;
  }
};

TEST_P(WrongSchemes, ButRightOnesPass) {
  for (const auto& config : {testing::accumulating(), testing::evaluating()}) {
    const Findings found = find(config, wrapping<testing::Wrapped>(GetParam()));
    EXPECT_THAT(found.violations, IsEmpty());
    EXPECT_EQ(found.proof, exact() ? Proof::identical_to_single : Proof::identical_to_definition);
  }
}

TEST_P(WrongSchemes, StepBeforeTheLastMicroBatch) {
  const SchemeRow scheme = wrapping<testing::StepsEarly>(GetParam());
  const Findings found = find(testing::accumulating(), scheme);
  EXPECT_THAT(found.violations, ElementsAreArray(everything_from(1)))
      << "the last micro-batch already meets the new parameters";
  EXPECT_EQ(found.proof, Proof::different);
  EXPECT_THAT(find(tiny("mlp"), scheme).violations, IsEmpty()) << "one micro-batch";
}

TEST_P(WrongSchemes, ForgetAWorker) {
  const Findings found = find(tiny("mlp"), forgetting_last_worker(GetParam()));
  EXPECT_THAT(found.violations, ElementsAreArray(everything_from(2)));
  EXPECT_EQ(found.proof, Proof::different);
}

TEST_P(WrongSchemes, ReportALossThatTheyDidNotHave) {
  const Findings found = find(tiny("gpt"), wrapping<testing::MisreportsLoss<true>>(GetParam()));
  EXPECT_THAT(found.violations, ElementsAre(loss_of(3))) << "the parameters are right";
  EXPECT_EQ(found.proof, Proof::different);
}

TEST_P(WrongSchemes, ReportAnEvaluationThatTheyDidNotHave) {
  const Findings found =
      find(testing::evaluating(), wrapping<testing::MisreportsLoss<false>>(GetParam()));
  EXPECT_THAT(found.violations, ElementsAre(evaluation_after(2)));
  EXPECT_EQ(found.proof, Proof::different);
}

TEST_P(WrongSchemes, NeverExchangeAnything) {
  const Findings found = find(tiny("mlp"), testing::never_exchanging(GetParam()));
  EXPECT_THAT(found.violations,
              Contains(StartsWith("the busiest rank sends 0 bytes in a step, which is below the "
                                  "least possible ")));
  EXPECT_THAT(found.violations,
              Contains(exact() ? Text("the run reports 2 replicas, but the definition has 1")
                               : parameters_of(1)));
  EXPECT_EQ(found.proof, Proof::different);
}

INSTANTIATE_TEST_SUITE_P(Kinds, WrongSchemes, ::testing::Values("ddp", "averaging"),
                         [](const auto& info) { return info.param; });

TEST(WrongReplicas, MustAllBeShown) {
  const Findings found = find(tiny("mlp"), wrapping<testing::HidesReplicas>("averaging"));
  EXPECT_THAT(found.violations, ElementsAre("the run reports 1 replica, but the definition has 2"));
  EXPECT_EQ(found.proof, Proof::different);
}

/// The parameters after the last step have no loss unless they are evaluated.
TEST(WrongReplicas, OfTheLastStepShowInItsEvaluation) {
  const SchemeRow scheme = forgetting_last_worker("averaging");
  Findings found = find(tiny("gpt"), scheme, 5);
  EXPECT_THAT(found.violations, ElementsAre(parameters_of(0), parameters_of(1)));
  EXPECT_EQ(found.proof, Proof::different);
  found = find(testing::evaluating(), scheme, 5);
  EXPECT_THAT(found.violations,
              ElementsAre(parameters_of(0), parameters_of(1), evaluation_after(5)));
  EXPECT_EQ(found.proof, Proof::different);
}

}  // namespace
}  // namespace ringside
