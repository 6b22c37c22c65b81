// Errors of ranks on one host when others do not do their part.
#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <thread>

#include "core/base/error.h"
#include "core/base/interruption.h"
#include "tests/peer/failures_suite.h"
#include "tests/support/complaint.h"
#include "tests/support/manual_device.h"

namespace ringside::testing {
namespace {

FailingRanks ranks_on_a_host(const std::string& name, Algorithm algorithm) {
  return {name, [algorithm](const RunOfRanks& ranks) {
            return end_in_real_time([&] {
              return errors_of_ranks(ranks.size, ranks.timeout_s, ranks.body, algorithm,
                                     ranks.present);
            });
          }};
}
const auto on_a_host = ::testing::Values(ranks_on_a_host("shm", Algorithm::native),
                                         ranks_on_a_host("shm_ring", Algorithm::ring));

INSTANTIATE_TEST_SUITE_P(Shm, Failures, on_a_host, name_of_kind);
INSTANTIATE_TEST_SUITE_P(Shm, LateRanks, on_a_host, name_of_kind);
INSTANTIATE_TEST_SUITE_P(Shm, WatchedMessages, on_a_host, name_of_kind);

TEST(ShmFailures, AGroupThatIsNotOpenedNamesItsFirstRank) {
  MemoryStore store;
  const auto device = make_cpu_device(1);
  EXPECT_THAT(complaint([&] {
                peer::make_shm_communicator(*device, store, {"ddp", 1, 2}, 0.5);
              }),
              ::testing::HasSubstr("ddp: rank 0 of 2 did not open the group"));
}

/// The device of a process that is stopped for an hour (Ctrl-Z) before it reads the clock for the
/// eleventh time.
class StoppedDevice : public ManualDevice {
 public:
  explicit StoppedDevice(std::atomic<bool>& went_on) : went_on_(went_on) {}
  double now() const override {
    if (++looks_ > 10) went_on_ = true;
    return looks_ > 10 ? 3600 : 0;
  }

 private:
  std::atomic<bool>& went_on_;
  mutable std::atomic<int> looks_ = 0;
};

TEST(ShmFailures, ATimeInWhichAllWereStoppedCountsForNoDeadline) {
  std::atomic<bool> went_on = false;
  const auto communicator = [](Device& device, Store& store, const Group& group, double timeout) {
    return peer::make_shm_communicator(device, store, group, timeout);
  };
  const auto errors = errors_of_ranks_on([&] { return std::make_unique<StoppedDevice>(went_on); },
                                         communicator, 2, 60,
                                         [&](const Rank& r) {
                                           while (r.rank == 1 && !went_on)
                                             std::this_thread::yield();
                                           r.comm.barrier();
                                         });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

/// The errors of ranks 0 and 1 of 3 in an operation to which rank 2 never comes, as if its process
/// had been killed. Rank 0 is interrupted, long before the deadline of an hour.
std::vector<std::string> errors_of_interrupted(const std::string& call) {
  Interruption interruption;
  std::atomic<int> in_it = 0;
  std::atomic<bool> over = false;
  const auto communicator = [&](Device& device, Store& store, const Group& group, double timeout) {
    return peer::make_shm_communicator(device, store, group, timeout,
                                       group.rank == 0 ? &interruption : nullptr);
  };
  const auto work = [&](const Rank& r) {
    if (r.rank == 2) {
      while (in_it < 2) std::this_thread::yield();
      interruption.raise();
      while (!over) std::this_thread::yield();
      return;
    }
    const Tensor values = r.floats(1000);
    ++in_it;
    try {
      if (call == "sum") r.comm.all_reduce(values)->wait();
      if (call == "message") r.comm.recv(values, 2)->wait();
      if (call == "barrier") r.comm.barrier();
    } catch (const Error&) {
      over = true;
      throw;
    }
  };
  auto errors = errors_of_ranks_on([] { return make_cpu_device(1); }, communicator, 3, 3600, work);
  errors.pop_back();
  return errors;
}

/// An interruption of one rank ends the waits of all. Many times, as it may come at any moment of
/// an operation, which then must not end as if all ranks had come.
TEST(ShmFailures, AnInterruptionEndsTheWaitsOfAllRanks) {
  for (int round = 0; round < 5; ++round)
    for (const std::string call : {"sum", "message", "barrier"})
      EXPECT_THAT(errors_of_interrupted(call),
                  ::testing::Each(::testing::HasSubstr("the world changes")))
          << call;
}

TEST(ShmFailures, ARankThatWasInterruptedBeforeJoinsNoGroup) {
  MemoryStore store;
  Interruption interruption;
  interruption.raise();
  const auto device = make_cpu_device(1);
  EXPECT_THAT(complaint([&] {
                peer::make_shm_communicator(*device, store, {"ddp", 0, 2}, 3600, &interruption);
              }),
              ::testing::HasSubstr("the world changes"));
}

}  // namespace
}  // namespace ringside::testing
