// Every scheme of the registry over two stages: it trains as its definition does, or it is refused
// in one line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "experiments/tools/check/violations.h"
#include "ps/schemes/ps.h"
#include "tests/schemes/simulated.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/complaint.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

using testing::complaint;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::run;
using testing::tiny;
using testing::TriedScheme;
using tools::check::CheckedScheme;

/// Two micro-batches of a worker, whatever the scheme.
ExperimentConfig two_micro_batches() {
  ExperimentConfig config = tiny("gpt");
  config.train.accumulation = 2;
  return config;
}

ExperimentConfig in_two_stages(ExperimentConfig config) {
  config.mesh.pipeline = 2;
  return config;
}

/// All schemes with all their options.
std::vector<TriedScheme> all_schemes() {
  std::vector<TriedScheme> out;
  for (const SchemeInfo& info : scheme_rows()) {
    if (info.max_world == 1) continue;  // they have no mesh
    out.push_back({&info});
    for (const TriedOptions& tried : info.tried) out.push_back({&info, &tried});
  }
  return out;
}

std::string name_of_scheme(const ::testing::TestParamInfo<TriedScheme>& info) {
  return testing::name_in_tests(info.param.name());
}

/// Why the scheme with these options has no pipeline; "nothing" if it has one.
std::string refusal_of(const TriedScheme& scheme) {
  return complaint([&] { CheckedScheme{scheme, 4}.plan_of(in_two_stages(two_micro_batches())); });
}

class PipelinesOfSchemes : public ::testing::TestWithParam<TriedScheme> {
 protected:
  /// Compares two pipelines of two stages with what two workers without one must compute.
  void expect_the_definition(const ExperimentConfig& config) const {
    const CheckedScheme staged{GetParam(), 4}, plain{GetParam(), 2};
    const RunRecord row = staged.run_of(in_two_stages(config));
    EXPECT_THAT(tools::check::differences(row, plain.definition(config)), IsEmpty());
    EXPECT_THAT(tools::check::missing_traffic(row), IsEmpty());
  }
};

TEST_P(PipelinesOfSchemes, TrainAsTheirDefinitionsOrAreRefused) {
  const std::string refusal = refusal_of(GetParam());
  if (refusal == "nothing") return expect_the_definition(two_micro_batches());
  EXPECT_THAT(refusal, HasSubstr("mesh.pipeline = 2 does not go with "));
  EXPECT_THAT(refusal, HasSubstr("or set mesh.pipeline = 1"));
  EXPECT_THAT(refusal, Not(HasSubstr("\n")));
}

INSTANTIATE_TEST_SUITE_P(All, PipelinesOfSchemes, ::testing::ValuesIn(all_schemes()),
                         name_of_scheme);

TEST(PipelinesOfSchemes, AreThere) {
  std::set<std::string> there;
  for (const TriedScheme& one : all_schemes())
    if (!one.tried && refusal_of(one) == "nothing") there.insert(std::string(one.info->name));
  for (const char* name : {"ddp", "fsdp", "zero1", "zero2", "zero3", "ps", "local_sgd", "diloco",
                           "fedavg", "dpsgd", "independent"})
    EXPECT_TRUE(there.contains(name)) << name;
}

/// Simulated ranks compute the same numbers, beside servers of every stage too.
class SimulatedPipelinesOf : public ::testing::TestWithParam<std::string> {};

TEST_P(SimulatedPipelinesOf, TrainAsTheirDefinitions) {
  const ExperimentConfig config = two_micro_batches();
  const RunRecord definition = testing::definition_of(config, GetParam(), 2);
  ExperimentConfig staged = in_two_stages(testing::simulated(config, testing::small_cluster(4)));
  staged.sim.numerics = true;
  EXPECT_THAT(tools::check::differences(run(plan_training(staged, GetParam(), 4)), definition),
              IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, SimulatedPipelinesOf,
                         ::testing::Values("ddp", "zero1", "zero2", "zero3", "ps", "local_sgd",
                                           "diloco", "fedavg", "dpsgd", "independent"));

TEST(SimulatedPipelinesOverServers, AreTheRunOfSingle) {
  const ExperimentConfig config = two_micro_batches();
  const RunRecord single = testing::reference_of(config, 2);
  for (const ps::Placement placement :
       {ps::Placement::dedicated, ps::Placement::colocated, ps::Placement::mixed})
    for (const MeshDimension innermost : {MeshDimension::data, MeshDimension::pipeline}) {
      ExperimentConfig staged =
          in_two_stages(testing::simulated(config, testing::small_cluster(2)));
      staged.cluster->machines = 2;
      staged.sim.numerics = true;
      staged.mesh.innermost = innermost;
      staged.scheme_options["ps"] = ps::PsOptions{.servers = 2, .placement = placement};
      const RunRecord row = run(plan_training(staged, "ps", 4));
      EXPECT_THAT(tools::check::differences(row, single), IsEmpty())
          << name_of(placement) << ' ' << name_of(innermost);
      EXPECT_THAT(tools::check::missing_traffic(row), IsEmpty());
    }
}

}  // namespace
}  // namespace ringside::runner
