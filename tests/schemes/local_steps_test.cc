// Local steps and gossip: distances of replicas, groups, and the bytes of both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "peer/schemes/diloco.h"
#include "peer/schemes/dpsgd.h"
#include "peer/schemes/local_sgd.h"
#include "peer/schemes/sgp.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/complaint.h"

namespace ringside::runner {
namespace {

using testing::complaint;
using ::testing::HasSubstr;
using testing::run;
using testing::tiny;

RunRecord run_with(const std::string& scheme, Options options, int world, std::int64_t steps = 10) {
  auto config = tiny("mlp");
  config.train.steps = steps;
  config.scheme_options[scheme] = std::move(options);
  return run(plan_training(config, scheme, world));
}
double distance_of(const RunRecord& row) {
  for (const RunFigure& figure : row.figures)
    if (figure.name == "consensus distance") return figure.mean;
  ADD_FAILURE() << "no distance";
  return 0;
}

/// Schemes whose workers train replicas of their own, with all options that they are tested with.
class LocalFigures : public testing::SchemeAtWorld {};

TEST_P(LocalFigures, AreThoseOfTheDefinition) {
  auto config = tiny("gpt");
  const RunRecord row = run(plan_of(config)), defined = definition(config);
  ASSERT_EQ(row.figures.size(), defined.figures.size());
  for (std::size_t f = 0; f < row.figures.size(); ++f) {
    EXPECT_EQ(row.figures[f].name, defined.figures[f].name);
    EXPECT_NEAR(row.figures[f].mean, defined.figures[f].mean, 1e-6 * defined.figures[f].mean);
  }
}

std::vector<testing::TriedScheme> local_schemes() {
  std::vector<testing::TriedScheme> out = testing::tried_schemes(Promise::own_algorithm);
  std::erase_if(out, [](const auto& one) { return !one.info->own_replicas; });
  return out;
}
INSTANTIATE_TEST_SUITE_P(Registry, LocalFigures, testing::at_worlds(local_schemes(), {1, 2, 3}, 0),
                         testing::name_of_case);

/// Where schemes train alike, their replicas are equally far from each other. local_sgd measures by
/// the sum that it averages by, the others by a sum of their own.
TEST(ConsensusDistances, AreEqualWhereReplicasAre) {
  const peer::DistanceOptions every{.distance = true, .distance_every = 1};
  for (const int world : {2, 3, 4}) {
    const double averaged = distance_of(
        run_with("local_sgd", peer::LocalSgdOptions{.sync_every = 1, .distance = true}, world));
    EXPECT_GT(averaged, 1e-4);
    const double mixed = distance_of(run_with(
        "dpsgd",
        peer::DpsgdOptions{.graph = peer::Graph::complete, .overlap = false, .distance = every},
        world));
    EXPECT_NEAR(mixed / averaged, 1, 1e-3) << world;
    const double pushed = distance_of(run_with(
        "sgp", peer::SgpOptions{.graph = peer::Graph::complete, .distance = every}, world));
    EXPECT_NEAR(pushed / averaged, 1, 1e-3) << world;
    const double averaged_rarely =
        distance_of(run_with("local_sgd", peer::LocalSgdOptions{.distance = true}, world));
    const double outer = distance_of(
        run_with("diloco",
                 peer::DilocoOptions{.sync_every = 4,
                                     .outer_lr = 1,
                                     .outer_momentum = 0,
                                     .distance = {.distance = true, .distance_every = 4}},
                 world));
    EXPECT_NEAR(outer / averaged_rarely, 1, 1e-3) << world;
  }
}

TEST(ConsensusDistances, AreLessWhereNeighboursAreMore) {
  const auto of_graph = [](peer::Graph graph) {
    return distance_of(run_with(
        "dpsgd",
        peer::DpsgdOptions{.graph = graph, .distance = {.distance = true, .distance_every = 1}}, 6,
        30));
  };
  const double complete = of_graph(peer::Graph::complete), ring = of_graph(peer::Graph::ring);
  EXPECT_LT(complete, 0.9 * ring);
}

TEST(HierarchicalLocalSgd, IsPlainWhereGroupsChangeNothing) {
  using Own = peer::LocalSgdOptions;
  const auto expect_same = [](const Own& one, const Own& other, int world) {
    const RunRecord row = run_with("local_sgd", one, world);
    const RunRecord plain = run_with("local_sgd", other, world);
    EXPECT_EQ(row.parameter_hashes, plain.parameter_hashes) << world;
    EXPECT_EQ(row.loss, plain.loss) << world;
  };
  for (const int world : {2, 3, 4}) {
    expect_same({.group = 1, .group_every = 3}, {}, world);
    expect_same({.group = 2, .group_every = 4}, {}, world);
    expect_same({.group = 4}, {.sync_every = 1}, world);
  }
  const RunRecord groups = run_with("local_sgd", Own{.group = 2}, 4);
  EXPECT_NE(groups.loss, run_with("local_sgd", Own{}, 4).loss) << "groups are another algorithm";
  EXPECT_NE(groups.loss, run_with("local_sgd", Own{.sync_every = 1}, 4).loss);
}

/// Eight of 32 measured steps average all four workers, and the others the pairs.
TEST(HierarchicalLocalSgd, SendsLessThanAveragingOfAllInEveryStep) {
  auto config = tiny("mlp");
  config.model.width = 160;
  config.train.steps = 48;
  config.train.warmup = 16;
  config.scheme_options["local_sgd"] = peer::LocalSgdOptions{.group = 2};
  const RunRecord row = run(plan_training(config, "local_sgd", 4));
  const double bytes = 4 * static_cast<double>(row.parameters);
  const double expected = bytes * (8 * 2 * 3.0 / 4 + 24 * 2 * 1.0 / 2) / 32;
  EXPECT_DOUBLE_EQ(row.bytes_minimum_per_step, expected);
  for (const RankRecord& rank : row.ranks)
    EXPECT_NEAR(rank.bytes_sent_per_step, expected, 0.01 * expected) << rank.rank;
}

TEST(LocalSgd, SendsTheMomentsThatItAverages) {
  for (const auto& [optimizer, moments] : {std::pair("adamw", 2), {"sgd", 1}}) {
    auto config = tiny("mlp");
    config.model.width = 160;
    config.train.steps = 9;  // 8 measured steps
    config.optimizer.kind = optimizer;
    config.scheme_options["local_sgd"] =
        peer::LocalSgdOptions{.sync_every = 1, .average_moments = true};
    const RunRecord row = run(plan_training(config, "local_sgd", 2));
    const double expected = 4 * static_cast<double>(row.parameters) * (1 + moments);
    EXPECT_DOUBLE_EQ(row.bytes_minimum_per_step, expected);
    EXPECT_NEAR(row.ranks[0].bytes_sent_per_step, expected, 0.01 * expected) << optimizer;
  }
}

TEST(Sgp, HasWeightsWhoseMeanIsOne) {
  for (const peer::Graph graph : {peer::Graph::one_peer, peer::Graph::star})
    for (const std::int64_t overlap : {0, 2}) {
      const RunRecord row =
          run_with("sgp", peer::SgpOptions{.graph = graph, .overlap = overlap}, 4, 9);
      ASSERT_EQ(row.figures.size(), 1u);
      EXPECT_EQ(row.figures[0].name, "push-sum weight");
      EXPECT_NEAR(row.figures[0].mean, 1, 1e-6);
      const bool uneven = graph == peer::Graph::star;
      EXPECT_NEAR(row.figures[0].max, uneven ? 1.6 : 1, 0.01) << "in the limit 4 * 4 / (4 + 6)";
    }
}

TEST(LocalSchemes, RefuseOptionsThatDoNotFit) {
  const auto refusal = [](const std::string& scheme, Options options) {
    auto config = tiny("mlp");
    config.scheme_options[scheme] = std::move(options);
    return complaint([&] { plan_training(config, scheme, 2); });
  };
  EXPECT_THAT(
      refusal("local_sgd", peer::LocalSgdOptions{.sync_every = 4, .group = 2, .group_every = 3}),
      HasSubstr("scheme.local_sgd.group_every = 3 does not divide scheme.local_sgd.sync_every = 4; "
                "choose a divisor"));
  EXPECT_THAT(refusal("dpsgd", peer::DpsgdOptions{.graph = peer::Graph::star}),
              HasSubstr("choose another graph, or scheme sgp"));
}

}  // namespace
}  // namespace ringside::runner
