// Errors of simulated ranks when others do not do their part, and the times at which they get them.
#include <limits>

#include "core/base/error.h"
#include "tests/peer/failures_suite.h"
#include "tests/peer/sim_ranks.h"

namespace ringside::testing {
namespace {

FailingRanks simulated_ranks(const std::string& name, const Simulated& simulated) {
  FailingRanks out{name, [=](const RunOfRanks& ranks) {
                     Simulated run = simulated;
                     run.options.timeout_s = ranks.timeout_s;
                     EndOfRanks end;
                     end.errors = errors_of_simulated(run, ranks.size, ranks.body, &end.seconds,
                                                      ranks.present);
                     return end;
                   }};
  out.sleep = [](const Rank& r, double seconds) {
    sim::sim_device(r.device).world().sleep(seconds);
  };
  return out;
}
const auto in_a_world = ::testing::Values(
    simulated_ranks("messages", rings_as_messages(4)), simulated_ranks("flows", rings_as_flows(4)),
    simulated_ranks("one_pass", one_pass()), simulated_ranks("two_hosts", two_hosts(2)));

INSTANTIATE_TEST_SUITE_P(Sim, Failures, in_a_world, name_of_kind);
INSTANTIATE_TEST_SUITE_P(Sim, LateRanks, in_a_world, name_of_kind);
INSTANTIATE_TEST_SUITE_P(Sim, WatchedMessages, in_a_world, name_of_kind);

TEST(SimGroups, WorkIsEndedWithActorsThatWaitForEver) {
  const Simulated simulated = rings_as_messages(2);
  const auto world = sim::make_world(simulated.cluster);
  for (int r = 0; r < 2; ++r)
    world->spawn("rank", {0, r}, [&, r] {
      const auto device = sim::make_sim_device(simulated.cluster, world.get(), {0, r}, nullptr);
      const auto comm = peer::make_sim_communicator(*device, {"test", r, 2}, {});
      WorkPtr work, message;
      if (r == 0) work = comm->all_reduce(device->tensor({4}, MemoryKind::gradient));
      if (r == 0) message = comm->send(device->tensor({4}, MemoryKind::gradient), 1);
      world->make_event()->wait(std::numeric_limits<double>::infinity());
    });
  EXPECT_THROW(world->run(), Error);
}

}  // namespace
}  // namespace ringside::testing
