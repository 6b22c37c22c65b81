// Local SGD in groups of the workers of one host (scheme.local_sgd.group = 0).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "core/plan/host_workers.h"
#include "peer/schemes/local_sgd.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/simulated.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/schemes/wrong_schemes.h"
#include "tests/support/complaint.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

using testing::complaint;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::tiny;
using testing::violations;
using Own = peer::LocalSgdOptions;

TEST(HostsOfWorkers, FollowTheSlotsOfAJob) {
  constexpr auto fill = WorkerPlacement::fill, spread = WorkerPlacement::spread;
  EXPECT_THAT(hosts_of_workers(3, {}, {}, fill), ElementsAre(0, 0, 0));
  EXPECT_THAT(hosts_of_workers(5, {}, {3, 1, 4}, fill), ElementsAre(0, 0, 0, 1, 2));
  EXPECT_THAT(hosts_of_workers(5, {}, {3, 1, 4}, spread), ElementsAre(0, 0, 1, 2, 2));
  EXPECT_THAT(hosts_of_workers(4, {}, {1, 1}, spread), ElementsAre(0, 1, 1, 1)) << "refused later";
  EXPECT_THAT(workers_by_slots(7, {2, 3}, fill), ElementsAre(2, 3)) << "as many as there are";
}

TEST(HostsOfWorkers, AreMachinesOfASimulatedCluster) {
  sim::ClusterSpec cluster = testing::small_cluster(2);
  cluster.machines = 3;
  EXPECT_THAT(hosts_of_workers(5, cluster, {5}, WorkerPlacement::fill), ElementsAre(0, 0, 1, 1, 2));
}

TEST(WorkersOfEachHost, AreEquallyManyButOnTheLast) {
  EXPECT_EQ(workers_of_each_host({0, 0, 0}), 3);
  EXPECT_EQ(workers_of_each_host({0, 0, 1, 1, 2}), 2);
  EXPECT_EQ(workers_of_each_host({0, 1, 2}), 1);
  EXPECT_FALSE(workers_of_each_host({0, 1, 1}));
  EXPECT_FALSE(workers_of_each_host({0, 0, 1, 2, 2}));
  EXPECT_FALSE(workers_of_each_host({0, 1, 0, 1})) << "the workers of a host are not consecutive";
}

/// Two machines with two devices each.
ExperimentConfig on_two_machines(const Own& options) {
  auto config = testing::simulated(tiny("gpt"), testing::small_cluster(2));
  config.cluster->machines = 2;
  config.sim.numerics = true;
  config.train.steps = 8;
  config.train.warmup = 0;
  config.scheme_options["local_sgd"] = options;
  return config;
}

TEST(GroupsOfHosts, EndWithTheBitsOfTheirDefinition) {
  for (const int world : {2, 3, 4})
    for (const std::int64_t group_every : {1, 2}) {
      const auto config = on_two_machines({.group = 0, .group_every = group_every});
      const RunPlan plan = plan_training(config, "local_sgd", world);
      EXPECT_EQ(plan.options.as<Own>().group, 2);
      const RunRecord row = testing::run(plan);
      EXPECT_THAT(violations(row, testing::definition_of(config, "local_sgd", world)), IsEmpty());
      const auto given = on_two_machines({.group = 2, .group_every = group_every});
      EXPECT_EQ(row.parameter_hashes,
                testing::run(plan_training(given, "local_sgd", world)).parameter_hashes);
    }
}

TEST(GroupsOfHosts, AreAllWorkersOfOneHost) {
  auto config = tiny("mlp");
  config.scheme_options["local_sgd"] = Own{.group = 0};
  EXPECT_EQ(plan_training(config, "local_sgd", 3).options.as<Own>().group, 3);
  config.in_job = true;
  config.host_slots = {2, 2};
  EXPECT_EQ(plan_training(config, "local_sgd", 3).options.as<Own>().group, 2);
  config.hosts.workers = WorkerPlacement::spread;
  EXPECT_EQ(plan_training(config, "local_sgd", 2).options.as<Own>().group, 1);
}

TEST(GroupsOfHosts, AreRefusedOnUnevenHosts) {
  auto config = tiny("mlp");
  config.scheme_options["local_sgd"] = Own{.group = 0};
  config.in_job = true;
  config.host_slots = {1, 3};
  EXPECT_THAT(complaint([&] { plan_training(config, "local_sgd", 4); }),
              HasSubstr("scheme.local_sgd.group = 0 is for hosts with equally many workers, of "
                        "which the last may have fewer, and here 1, 3 follow each other"));
}

/// The elements that each rank gives to all-reduces, by the number of their ranks.
struct CountedElements {
  std::map<int, double> of_groups{};
};

class CountsElements : public testing::WrappedCommunicator {
 public:
  CountsElements(std::unique_ptr<Communicator> right, std::shared_ptr<CountedElements> counted)
      : WrappedCommunicator(std::move(right)), counted_(std::move(counted)) {}
  WorkPtr all_reduce(const Tensor& array) override {
    counted_->of_groups[size()] += static_cast<double>(array.count());
    return WrappedCommunicator::all_reduce(array);
  }
  std::unique_ptr<Communicator> split(int colour, int key) override {
    EXPECT_EQ(colour, rank() / 2) << "the machine";
    return std::make_unique<CountsElements>(WrappedCommunicator::split(colour, key), counted_);
  }

 private:
  std::shared_ptr<CountedElements> counted_;
};

/// Of eight steps all average in groups but the fourth and the eighth, in which replicas cross the
/// network. Simulated ranks take turns on one thread, so they may count together.
TEST(GroupsOfHosts, CrossTheNetworkInAveragingsOfAllAlone) {
  const auto counted_with = [](const Own& options) {
    const auto counted = std::make_shared<CountedElements>();
    SchemeInfo row = find_scheme("local_sgd");
    row.make = [make = row.make, counted](const RankContext& context, const Options& own) {
      RankContext other = context;
      other.links =
          Links([right = context.links, counted](const RankContext& rank, const Group& group) {
            return std::make_unique<CountsElements>(right.communicator(rank, group), counted);
          });
      return make(other, own);
    };
    const RunRecord record =
        testing::run(plan_training(on_two_machines(options), "local_sgd", 4), &row);
    for (auto& [ranks, elements] : counted->of_groups)
      elements /= 4 * static_cast<double>(record.parameters);
    return counted->of_groups;
  };
  const auto by_host = counted_with({.sync_every = 4, .group = 0});
  EXPECT_NEAR(by_host.at(4), 2, 0.01) << "replicas that each rank gives to all";
  EXPECT_NEAR(by_host.at(2), 6, 0.01) << "replicas that each rank gives to its machine";
  const auto every_step = counted_with({.sync_every = 1, .group = 0});
  EXPECT_NEAR(every_step.at(4), 8, 0.01);
  EXPECT_FALSE(every_step.contains(2));
}

}  // namespace
}  // namespace ringside::runner
