// The errors that simulated ranks get if other ranks do not do their part, and the times at which
// they get them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/peer/sim_ranks.h"

namespace ringside {
namespace {

using testing::errors_of_simulated;
using ::testing::HasSubstr;
using testing::one_pass;
using testing::Rank;
using testing::rings_as_flows;
using testing::rings_as_messages;
using testing::Simulated;

sim::World& failing_world_of(const Rank& rank) { return sim::sim_device(rank.device).world(); }

class SimFailures : public ::testing::TestWithParam<const char*> {
 protected:
  Simulated simulated(double timeout_s) const {
    const std::string name = GetParam();
    Simulated out = name == "messages" ? rings_as_messages(4)
                    : name == "flows"  ? rings_as_flows(4)
                                       : one_pass();
    out.options.timeout_s = timeout_s;
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(Ways, SimFailures, ::testing::Values("messages", "flows", "one_pass"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(SimFailures, ARankThatDoesNotComeIsNamedAtTheDeadlineInVirtualTime) {
  const auto errors = errors_of_simulated(simulated(0.5), 4, [&](const Rank& r) {
    r.comm.barrier();
    if (r.rank == 2) return failing_world_of(r).sleep(10);
    const double begin = failing_world_of(r).now();
    std::string error;
    try {
      r.comm.all_reduce(r.floats(1024))->wait();
    } catch (const Error& e) {
      error = e.what();
    }
    EXPECT_NEAR(failing_world_of(r).now() - begin, 0.5, 1e-3);
    EXPECT_EQ(
        error,
        "test: rank 2 of 4 did not begin operation 2 (all_reduce of 4096 bytes) within 0.5 s; "
        "rank 2 of 4: ended operation 1 (barrier) 0.50 s ago; ranks 0, 1, 3 of 4: in "
        "operation 2 (all_reduce of 4096 bytes) for 0.50 s");
    EXPECT_THROW(r.comm.barrier(), Error);  // at once, not after the deadline
    EXPECT_THROW(r.comm.send(r.floats(1), 0), Error);
    EXPECT_NEAR(failing_world_of(r).now() - begin, 0.5, 1e-3);
  });
  EXPECT_EQ(errors, std::vector<std::string>(4));
}

TEST_P(SimFailures, ARankThatLeavesIsNoticedBeforeTheDeadline) {
  double end = 0;
  const auto errors = errors_of_simulated(
      simulated(60), 3,
      [&](const Rank& r) {
        r.comm.barrier();
        if (r.rank == 1) return failing_world_of(r).sleep(1);
        r.comm.all_reduce(r.floats(1024))->wait();
      },
      &end);
  const std::string expected =
      "test: rank 1 of 3 ended before operation 2 (all_reduce of 4096 bytes); rank 1 of 3: ended "
      "operation 1 (barrier) 1.00 s ago, then left; ranks 0, 2 of 3: in operation 2 (all_reduce of "
      "4096 bytes) for 1.00 s";
  EXPECT_EQ(errors, (std::vector<std::string>{expected, "", expected}));
  EXPECT_NEAR(end, 1, 1e-3);
}

TEST_P(SimFailures, ARankThatAnErrorEndsLeavesNoRankWaitingForEver) {
  const auto errors = errors_of_simulated(simulated(2), 3, [&](const Rank& r) {
    const Tensor array = r.floats(1024);
    const WorkPtr work = r.comm.all_reduce(array);
    if (r.rank == 1) throw Error("lost");
    work->wait();
    r.comm.all_reduce(array)->wait();
  });
  EXPECT_EQ(errors[1], "lost");
  EXPECT_EQ(errors[0], "test: rank 1 of 3 failed during operation 1 (all_reduce of 4096 bytes)");
  EXPECT_EQ(errors[2], errors[0]);
}

TEST_P(SimFailures, DifferentOperationsAreNamedOnEveryRank) {
  const auto errors = errors_of_simulated(simulated(60), 3, [&](const Rank& r) {
    if (r.rank == 2)
      r.comm.broadcast(r.floats(2), 1)->wait();
    else
      r.comm.all_reduce(r.floats(1024))->wait();
  });
  for (const auto& error : errors)
    EXPECT_THAT(error, HasSubstr("test: operation 1 is all_reduce of 4096 bytes on rank 0 and "
                                 "broadcast of 8 bytes from rank 1 on rank 2"));
}

TEST_P(SimFailures, DifferentSizesAreNamedOnEveryRank) {
  const auto errors = errors_of_simulated(simulated(60), 2, [&](const Rank& r) {
    failing_world_of(r).sleep(r.rank == 0 ? 1 : 0);
    r.comm.all_reduce(r.floats(r.rank + 1))->wait();
  });
  for (const auto& error : errors)
    EXPECT_THAT(error,
                HasSubstr("all_reduce of 4 bytes on rank 0 and all_reduce of 8 bytes on rank 1"));
}

TEST_P(SimFailures, OperationsBehindTheOneThatFailedFailToo) {
  const auto errors = errors_of_simulated(simulated(60), 2, [&](const Rank& r) {
    std::vector<WorkPtr> works;
    const WorkPtr good = r.comm.all_reduce(r.floats(4));
    works.push_back(r.comm.all_reduce(r.floats(r.rank + 1)));
    for (int i = 0; i < 5; ++i) works.push_back(r.comm.all_reduce(r.floats(8)));
    good->wait();
    for (const auto& work : works) EXPECT_THROW(work->wait(), Error);
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

TEST_P(SimFailures, AMessageThatIsNotSentIsNamed) {
  const auto errors = errors_of_simulated(simulated(0.5), 2, [&](const Rank& r) {
    if (r.rank == 1) return failing_world_of(r).sleep(5);
    r.comm.recv(r.floats(4), 1)->wait();
  });
  EXPECT_EQ(errors[0],
            "test: rank 1 of 2 did not begin message 1 of 16 bytes from rank 1 to rank 0 within "
            "0.5 s");
  EXPECT_EQ(errors[1], "");
}

TEST_P(SimFailures, AMessageToARankThatLeavesIsNamed) {
  const auto errors = errors_of_simulated(simulated(60), 2, [&](const Rank& r) {
    if (r.rank == 0) r.comm.send(r.floats(4), 1)->wait();
  });
  EXPECT_EQ(errors[0],
            "test: rank 1 of 2 ended before message 1 of 16 bytes from rank 0 to rank 1");
}

TEST_P(SimFailures, MessagesOfDifferentSizesFailOnBothEnds) {
  const auto errors = errors_of_simulated(simulated(60), 2, [&](const Rank& r) {
    if (r.rank == 0)
      r.comm.send(r.floats(4), 1)->wait();
    else
      r.comm.recv(r.floats(5), 0)->wait();
  });
  for (const auto& error : errors)
    EXPECT_EQ(error,
              "test: message 1 from rank 0 to rank 1 is sent with 16 bytes and received with 20");
}

TEST_P(SimFailures, WrongTensorsAreRefusedAtTheCall) {
  const auto errors = errors_of_simulated(simulated(60), 2, [&](const Rank& r) {
    EXPECT_THROW(r.comm.all_reduce(r.device.tensor({4}, MemoryKind::activation)), Error);
    EXPECT_THROW(r.comm.all_reduce(r.device.tensor({4}, MemoryKind::gradient, DType::i32)), Error);
    EXPECT_THROW(r.comm.all_gather(r.floats(2), r.floats(5)), Error);
    EXPECT_THROW(r.comm.reduce_scatter(r.floats(5), r.floats(2)), Error);
    EXPECT_THROW(r.comm.all_to_all(r.floats(3), r.floats(3)), Error);
    EXPECT_THROW(r.comm.broadcast(r.floats(1), 2), Error);
    EXPECT_THROW(r.comm.send(r.floats(1), -1), Error);
    r.comm.barrier();  // and the group is still whole
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

TEST(SimGroups, ThatDoNotComeTogetherNameWhoIsMissing) {
  const Simulated simulated = rings_as_messages(3);
  const auto world = sim::make_world(simulated.cluster);
  std::string error;
  world->spawn("rank 0", {0, 0}, [&] {
    const auto device = sim::make_sim_device(simulated.cluster, world.get(), {0, 0}, nullptr);
    try {
      peer::make_sim_communicator(*device, {"ddp", 0, 3}, {.timeout_s = 0.5});
    } catch (const Error& e) {
      error = e.what();
    }
  });
  world->run();
  EXPECT_EQ(error, "ddp: ranks 1, 2 of 3 did not join the group within 0.5 s");
  EXPECT_NEAR(world->now(), 0.5, 1e-6);
}

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
}  // namespace ringside
