// The slowdown of operations by collectives at the same time, and the copies at the end of
// collectives.
#include <gtest/gtest.h>

#include "tests/peer/sim_ranks.h"

namespace ringside {
namespace {

using testing::Rank;
using testing::run_simulated;
using testing::Simulated;

constexpr double share = 0.2;
constexpr std::int64_t bytes = 100'000'000;
/// An all-reduce of these bytes between two devices at 10 GB/s, with a base latency of 8 us and two
/// steps of 3 us.
constexpr double collective_s = 8e-6 + 2 * 3e-6 + bytes / 10e9;

Simulated two_devices() {
  Simulated simulated{testing::small_cluster(2), {}, false};
  simulated.cluster.collective.device_share = share;
  return simulated;
}

/// Enqueues operations that take `seconds` of a free device: 1e12 operations a second at half of
/// the peak, and 2 us before each.
void compute(const Rank& r, double seconds) {
  constexpr std::int64_t n = 1000;
  const auto matrix = [&] { return r.device.tensor({n, n}, MemoryKind::activation); };
  const Tensor x = matrix(), weight = matrix(), y = matrix();
  constexpr double one_s = 4e-3 + 2e-6;
  for (int i = 0; i < static_cast<int>(seconds / one_s + 0.5); ++i)
    r.device.kernels().linear_forward({.x = x, .weight = weight, .y = y});
}

double run(double compute_s, bool wait_first) {
  return run_simulated(two_devices(), 2, [&](const Rank& r) {
    const auto work = r.comm.all_reduce(r.floats(bytes / 4));
    if (wait_first) work->wait();
    compute(r, compute_s);
    r.device.synchronize();
    work->wait();
  });
}

constexpr double operation_s = 4e-3 + 2e-6;

TEST(Collectives, SlowTheOperationsBesideThemDown) {
  // Operations that end before the collective run at 1 - share of their speed and are hidden.
  EXPECT_NEAR(run(operation_s, false), collective_s, 1e-6);
  // Operations that go on after the collective lose its share of its time.
  EXPECT_NEAR(run(10 * operation_s, false), 10 * operation_s + share * collective_s, 1e-6);
}

TEST(Collectives, TakeNothingFromOperationsBeforeOrAfterThem) {
  EXPECT_NEAR(run(10 * operation_s, true), 10 * operation_s + collective_s, 1e-6);
}

TEST(Collectives, ThatAreSlowerThanTheOperationsLeaveThemTheRest) {
  double computed = 0;
  run_simulated(two_devices(), 2, [&](const Rank& r) {
    const auto work = r.comm.all_reduce(r.floats(bytes / 4));
    compute(r, operation_s);
    r.device.synchronize();
    computed = r.device.clock().now();
    work->wait();
  });
  EXPECT_NEAR(computed, operation_s / (1 - share), 1e-6);
}

TEST(Collectives, CopyOutWhatArrivesLast) {
  Simulated simulated = two_devices();
  const auto seconds = [&](double copy_out_gbs, std::int64_t message_ranks) {
    simulated.cluster.collective.copy_out_gbs = copy_out_gbs;
    simulated.options.message_ranks = message_ranks;
    return run_simulated(simulated, 2,
                         [&](const Rank& r) { r.comm.all_reduce(r.floats(bytes / 4))->wait(); });
  };
  for (const std::int64_t message_ranks : {0, 8}) {
    EXPECT_NEAR(seconds(0, message_ranks), collective_s, 1e-6);
    EXPECT_NEAR(seconds(50, message_ranks), collective_s + bytes / 2 / 50e9, 1e-6);
  }
}

}  // namespace
}  // namespace ringside
