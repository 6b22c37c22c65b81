// The schemes with servers in a simulated world.
#include <gtest/gtest.h>

#include "tests/ps/makers.h"
#include "tests/ps/simulated.h"

namespace ringside::ps {
namespace {

using testing::cpu_machines;
using testing::expect_run_of;
using testing::maker;
using testing::reference;
using testing::server_of;
using testing::simulate_ranks;
using testing::Simulated;
using testing::tiny_plan;

template <class Options>
Simulated simulate(const RunPlan& plan, const Options& options, const sim::ClusterSpec& cluster,
                   bool numerics = true) {
  check(options, plan);
  return simulate_ranks(plan, cluster, numerics, maker(options), server_of(options));
}

sim::ClusterSpec cluster_with_costs(int machines) {
  sim::ClusterSpec cluster = cpu_machines(machines);
  cluster.message = {.send_us = 7, .receive_us = 9, .send_us_per_mb = 60, .receive_us_per_mb = 80};
  return cluster;
}

struct SimulatedCase {
  int world = 1, servers = 1;
  bool colocated = false;
  std::int64_t micro_batches = 1;
  int machines = 1;
};
void PrintTo(const SimulatedCase& c, std::ostream* out) {
  *out << c.world << " workers, " << c.servers << " servers "
       << (c.colocated ? "colocated, " : ", ") << c.micro_batches << " micro-batches, "
       << c.machines << " machines";
}

class SimulatedPs : public ::testing::TestWithParam<SimulatedCase> {};
INSTANTIATE_TEST_SUITE_P(Runs, SimulatedPs,
                         ::testing::Values(SimulatedCase{1, 1}, SimulatedCase{2, 2},
                                           SimulatedCase{2, 2, true, 2},
                                           SimulatedCase{3, 2, false, 1, 3},
                                           SimulatedCase{4, 2, true, 1, 4}));

TEST_P(SimulatedPs, EndsWithTheBitsOfASequentialSum) {
  const SimulatedCase& c = GetParam();
  const RunPlan plan = tiny_plan(c.world, c.servers, c.colocated, c.micro_batches);
  const PsOptions options{.servers = c.servers,
                          .placement = c.colocated ? Placement::colocated : Placement::dedicated};
  expect_run_of(reference(c.world, c.micro_batches), plan,
                simulate(plan, options, cluster_with_costs(c.machines)).ranks);
}

class SimulatedDp : public ::testing::TestWithParam<SimulatedCase> {};
INSTANTIATE_TEST_SUITE_P(Runs, SimulatedDp,
                         ::testing::Values(SimulatedCase{1, 1}, SimulatedCase{1, 1, true},
                                           SimulatedCase{2, 1, true, 3},
                                           SimulatedCase{3, 1, false, 2, 2},
                                           SimulatedCase{4, 1, true, 2, 4}));

TEST_P(SimulatedDp, EndsWithTheBitsOfASequentialSum) {
  const SimulatedCase& c = GetParam();
  const RunPlan plan = tiny_plan(c.world, c.servers, c.colocated, c.micro_batches);
  const DpOptions options{.placement = c.colocated ? Placement::colocated : Placement::dedicated};
  expect_run_of(reference(c.world, c.micro_batches), plan,
                simulate(plan, options, cluster_with_costs(c.machines)).ranks);
}

TEST(SimulatedSchemes, WithoutValuesTakeTheSameTimeBytesAndMemory) {
  const RunPlan plan = tiny_plan(3, 2, false, 1);
  const Simulated with = simulate(plan, PsOptions{}, cluster_with_costs(3));
  const Simulated without = simulate(plan, PsOptions{}, cluster_with_costs(3), false);
  EXPECT_NEAR(with.seconds, without.seconds, 1e-9 * with.seconds);
  for (std::size_t r = 0; r < with.ranks.size(); ++r) {
    const auto& a = with.ranks[r];
    const auto& b = without.ranks[r];
    EXPECT_EQ(b.error, "");
    EXPECT_EQ(a.worker.bytes_sent_per_step, b.worker.bytes_sent_per_step) << r;
    EXPECT_EQ(a.server.bytes_received_per_step, b.server.bytes_received_per_step) << r;
    EXPECT_EQ(a.worker.at_peak.total(), b.worker.at_peak.total()) << r;
    EXPECT_EQ(a.server.at_peak.total(), b.server.at_peak.total()) << r;
  }
}

/// The master's link carries the parameters once for each worker, and then the gradients once for
/// each worker in the other direction. Nothing overlaps in dp, so the two times and the time of
/// computing add up.
TEST(SimulatedSchemes, AStepOfDpIsAsLongAsTheMastersLinkIsBusy) {
  RunPlan plan = tiny_plan(8, 1, false, 1);
  plan.model.width = 1200;
  plan.model.context = 1;
  const Simulated run =
      simulate(plan, DpOptions{.placement = Placement::dedicated}, cpu_machines(9), false);
  ASSERT_EQ(run.ranks[0].error, "");
  const double parameters = 4.0 * static_cast<double>(run.ranks[0].worker.parameters);
  const StepTime& step = run.ranks[3].worker.steps.at(2);
  const double computing = step.by_activity[static_cast<std::size_t>(Activity::compute)];
  const double closed_form = 2 * 8 * parameters / 1e9 + computing;
  // One worker's step begins and ends some parts earlier or later than another's.
  EXPECT_GE(step.total, 0.98 * closed_form);
  EXPECT_LE(step.total, 1.2 * closed_form) << "and the master computes";
}

template <class Options>
void expect_that_all_simulated_end(const RunPlan& plan, const Options& options) {
  const Simulated run =
      simulate_ranks(plan, cpu_machines(2), true, testing::with_a_failing_worker(maker(options)),
                     server_of(options));
  testing::expect_that_others_name_the_failing_worker(run.ranks);
  EXPECT_LT(run.seconds, plan.train.timeout_s / 2);
}

TEST(SimulatedFailures, OfOneWorkerEndTheOthersAtOnceAndNameIt) {
  expect_that_all_simulated_end(tiny_plan(3, 2, false, 1), PsOptions{});
  expect_that_all_simulated_end(tiny_plan(2, 1, true, 1), DpOptions{});
}

TEST(SimulatedFailures, AWorkerThatDoesNotComeKeepsNoRankWaiting) {
  const RunPlan plan = tiny_plan(2, 1, false, 1);
  const PsOptions options{.servers = 1};
  const Simulated run = simulate_ranks(
      plan, cpu_machines(1), true, testing::without_worker_1(maker(options)), server_of(options));
  EXPECT_NE(run.ranks[0].error.find("worker 1 did not connect within 30 s"), std::string::npos)
      << run.ranks[0].error;
  EXPECT_NE(run.ranks[2].error.find("worker 1 did not connect within 30 s"), std::string::npos)
      << run.ranks[2].error;
  EXPECT_NEAR(run.seconds, 30, 5);
}

TEST(SimulatedFailures, AWorkerNamesTheServerThatIsNotThere) {
  const RunPlan plan = tiny_plan(1, 1, false, 1);
  const Simulated run = simulate_ranks(plan, cpu_machines(1), true, maker(PsOptions{.servers = 1}),
                                       testing::absent_server);
  EXPECT_EQ(run.ranks[0].error, "server 0 did not listen within 33 s");
}

}  // namespace
}  // namespace ringside::ps
