// Errors of ranks on one host when others do not do their part.
#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <thread>

#include "core/base/error.h"
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
  const auto errors = errors_of_ranks_on([&] { return std::make_unique<StoppedDevice>(went_on); },
                                         peer::make_shm_communicator, 2, 60,
                                         [&](const Rank& r) {
                                           while (r.rank == 1 && !went_on)
                                             std::this_thread::yield();
                                           r.comm.barrier();
                                         });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

}  // namespace
}  // namespace ringside::testing
