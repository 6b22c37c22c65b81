// Identities: runs of a scheme that must equal runs of another scheme, as the scheme's info says. A
// definition that shares a mistake with its scheme does not show the mistake; an identity does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "experiments/runner/config/config.h"
#include "peer/schemes/diloco.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/wrong_schemes.h"

namespace ringside::runner {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;
using testing::run;

/// One identity of one scheme.
struct Named {
  const SchemeInfo* info;
  std::size_t number;
  const Identity& identity() const { return info->identities[number]; }
  friend std::ostream& operator<<(std::ostream& out, const Named& one) {
    return out << fmt::format("{} with {} is {}", one.info->name,
                              fmt::join(one.identity().settings, ", "), one.identity().other);
  }
};

std::vector<Named> all_identities() {
  std::vector<Named> out;
  for (const SchemeInfo* info : testing::own_schemes())
    for (std::size_t i = 0; i < info->identities.size(); ++i) out.push_back({info, i});
  return out;
}

/// The tiny experiment with the settings of the identity.
ExperimentConfig experiment(const Identity& identity, const std::string& model) {
  const auto tiny = testing::tiny(model);
  std::vector<std::string> settings = {"data.path='" + testing::text_path() + "'"};
  settings.insert(settings.end(), identity.settings.begin(), identity.settings.end());
  auto config = experiment_of("identity", settings).common;
  config.model = tiny.model;
  config.train = tiny.train;
  config.optimizer.lr = tiny.optimizer.lr;
  return config;
}

/// The differences between the run of the scheme and that of the other one.
testing::Violations broken(const Named& one, int world, const SchemeInfo* wrong = nullptr) {
  testing::Violations out;
  for (const char* model : {"gpt", "mlp"}) {
    const ExperimentConfig config = experiment(one.identity(), model);
    const RunRecord row = run(plan_training(config, std::string(one.info->name), world), wrong);
    const std::string other(one.identity().other);
    const RunRecord expected = other == reference_scheme ? testing::reference_of(config, world)
                                                         : run(plan_training(config, other, world));
    for (const testing::Violations& more :
         {testing::wrong_losses(row, expected, one.identity().to_the_bit ? 0 : 1e-5),
          one.identity().to_the_bit ? testing::wrong_parameters(row, expected)
                                    : testing::Violations()})
      out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

class Identities : public ::testing::TestWithParam<std::tuple<Named, int>> {};

TEST_P(Identities, Hold) {
  const auto& [one, world] = GetParam();
  EXPECT_THAT(broken(one, world), IsEmpty()) << one;
}

INSTANTIATE_TEST_SUITE_P(Registry, Identities,
                         ::testing::Combine(::testing::ValuesIn(all_identities()),
                                            ::testing::Values(1, 2, 3, 4)),
                         [](const auto& info) {
                           const Named& one = std::get<0>(info.param);
                           return fmt::format("{}_{}_world_{}",
                                              testing::name_in_tests(one.info->name), one.number,
                                              std::get<1>(info.param));
                         });

TEST(Identities, ShowAWorkerThatIsForgotten) {
  const SchemeInfo wrong = testing::forgetting_last_worker("averaging");
  EXPECT_THAT(broken({&find_scheme("averaging"), 0}, 3, &wrong), Not(IsEmpty()));
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
    EXPECT_THAT(broken({&find_scheme("diloco"), identity}, 2, &wrong), Not(IsEmpty())) << identity;
}

TEST(Identities, OfEverySchemeWithAnAlgorithmOfItsOwnThatTalks) {
  for (const testing::TriedScheme& one : testing::tried_schemes(Promise::own_algorithm))
    if (one.info->topology != SchemeTopology::none) {
      EXPECT_THAT(one.info->identities, Not(IsEmpty())) << one;
    }
}

}  // namespace
}  // namespace ringside::runner
