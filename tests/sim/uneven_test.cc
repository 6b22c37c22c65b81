// The slow devices of a cluster, and the variation of a device's steps.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <utility>

#include "core/sim/uneven.h"
#include "tests/support/small_cluster.h"

namespace ringside::sim {
namespace {

TEST(JitterFactor, IsLogNormalWithMeanOne) {
  for (const double sigma : {0.05, 0.2, 0.5}) {
    constexpr std::int64_t devices = 8, steps = 5000;
    constexpr double n = devices * steps;
    double sum = 0, logs = 0, squares = 0, cubes = 0;
    for (std::int64_t device = 0; device < devices; ++device)
      for (std::int64_t step = 0; step < steps; ++step) {
        const double factor = jitter_factor(sigma, 7, device, step);
        const double z = (std::log(factor) + sigma * sigma / 2) / sigma;
        sum += factor;
        logs += z;
        squares += z * z;
        cubes += z * z * z;
      }
    // Five standard errors: of a mean of factors, and of the first three moments of a normal value.
    const double deviation = std::sqrt(std::expm1(sigma * sigma));
    EXPECT_NEAR(sum / n, 1, 5 * deviation / std::sqrt(n)) << sigma;
    EXPECT_NEAR(logs / n, 0, 5 / std::sqrt(n)) << sigma;
    EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n)) << sigma;
    EXPECT_NEAR(cubes / n, 0, 5 * std::sqrt(15 / n)) << sigma;
  }
}

TEST(JitterFactor, IsAnotherForEachSeedDeviceAndStep) {
  std::set<double> known;
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    for (std::int64_t device = 0; device < 10; ++device)
      for (std::int64_t step = 0; step < 10; ++step)
        known.insert(jitter_factor(0.1, seed, device, step));
  EXPECT_EQ(known.size(), 300u);
  EXPECT_EQ(jitter_factor(0.1, 1, 2, 3), jitter_factor(0.1, 1, 2, 3));
  EXPECT_EQ(jitter_factor(0, 1, 2, 3), 1);
}

TEST(JitterFactor, OfTheSlowestOfTwoHasItsClosedForm) {
  // The larger of two independent standard normal values z has E[exp(s z)] = 2 exp(s^2/2)
  // Phi(s / sqrt 2), so the larger of two factors has the mean 2 Phi(s / sqrt 2).
  constexpr double sigma = 0.3;
  constexpr std::int64_t steps = 20000;
  double sum = 0;
  for (std::int64_t step = 0; step < steps; ++step)
    sum += std::max(jitter_factor(sigma, 1, 0, step), jitter_factor(sigma, 1, 1, step));
  const double expected = std::erfc(-sigma / 2);
  EXPECT_NEAR(sum / steps, expected, 5 * sigma / std::sqrt(steps));
  EXPECT_GT(expected, 1.16);
}

TEST(SpreadFactor, BeginsWithATypicalDeviceAndHasQuantiles) {
  constexpr double sigma = 0.1, quartile = 0.6744897501960817;
  EXPECT_DOUBLE_EQ(spread_factor(sigma, 0), 1);
  EXPECT_NEAR(spread_factor(sigma, 1), std::exp(sigma * quartile), 1e-12);
  EXPECT_NEAR(spread_factor(sigma, 2), std::exp(-sigma * quartile), 1e-12);
  EXPECT_EQ(spread_factor(0, 5), 1);
  std::set<double> known;
  for (std::int64_t device = 0; device < 1000; ++device) known.insert(spread_factor(sigma, device));
  EXPECT_EQ(known.size(), 1000u);
}

TEST(SpreadFactor, OfTheSlowestIsTheMeanOfTheSlowestDrawn) {
  // The mean of the largest of n standard normal values (Harter 1961, table 1).
  const std::pair<std::int64_t, double> means[] = {
      {2, 0.56419},  {3, 0.84628},  {4, 1.02938},  {5, 1.16296},  {8, 1.42360},
      {10, 1.53875}, {16, 1.76599}, {20, 1.86748}, {50, 2.24907}, {100, 2.50759}};
  for (const auto& [n, mean] : means) {
    double slowest = 0;
    for (std::int64_t device = 0; device < n; ++device)
      slowest = std::max(slowest, spread_factor(0.01, device));
    EXPECT_NEAR(std::log(slowest) / 0.01, mean, 0.21) << n;
  }
}

TEST(Slowness, IsTheProductOfAllEntriesAboutADevice) {
  ClusterSpec cluster = testing::small_cluster(2);
  cluster.machines = 3;
  cluster.slow = {{.machine = 1, .device = 0, .factor = 1.5}, {.machine = 1, .factor = 2}};
  EXPECT_EQ(slowness_of(cluster, 0, 0), 1);
  EXPECT_EQ(slowness_of(cluster, 1, 0), 3);
  EXPECT_EQ(slowness_of(cluster, 1, 1), 2);
  EXPECT_EQ(slowness_of(cluster, 1, -1), 1) << "the host";
}

TEST(OtherMachines, HaveDevicesOfTheirOwn) {
  ClusterSpec cluster = testing::small_cluster(2);
  cluster.machines = 5;
  cluster.others = {{.first = 2, .count = 2, .device = cluster.device}};
  cluster.others[0].device.name = "other";
  cluster.others[0].device.memory_gb = 5;
  for (const int machine : {0, 1, 4}) EXPECT_EQ(device_of(cluster, machine).name, "gpu");
  for (const int machine : {2, 3}) EXPECT_EQ(device_of(cluster, machine).name, "other");
  scale_device_memory(cluster, 3);
  EXPECT_EQ(cluster.device.memory_gb, 48);
  EXPECT_EQ(cluster.others[0].device.memory_gb, 15);
}

}  // namespace
}  // namespace ringside::sim
