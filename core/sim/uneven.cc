#include "core/sim/uneven.h"

#include <cmath>
#include <numbers>

#include "core/num/random.h"

namespace ringside::sim {
namespace {

/// The z with P(Z < z) = p of a standard normal Z, for p in [0.5, 1).
double normal_quantile(double p) {
  double low = 0, high = 40;
  for (int i = 0; i < 60; ++i) {
    const double z = (low + high) / 2;
    (1 - std::erfc(z / std::numbers::sqrt2) / 2 < p ? low : high) = z;
  }
  return (low + high) / 2;
}

}  // namespace

const DeviceSpec& device_of(const ClusterSpec& cluster, std::int64_t machine) {
  for (const OtherMachines& other : cluster.others)
    if (machine >= other.first && machine < other.first + other.count) return other.device;
  return cluster.device;
}

double slowness_of(const ClusterSpec& cluster, std::int64_t machine, std::int64_t device) {
  double factor = 1;
  for (const SlowDevice& slow : cluster.slow)
    if (device >= 0 && slow.machine == machine && (slow.device == device || slow.device == -1))
      factor *= slow.factor;
  return factor;
}

void scale_device_memory(ClusterSpec& cluster, double factor) {
  cluster.device.memory_gb *= factor;
  for (OtherMachines& other : cluster.others) other.device.memory_gb *= factor;
}

double jitter_factor(double sigma, std::uint64_t seed, std::int64_t device, std::int64_t step) {
  const auto position =
      static_cast<std::uint64_t>(step) * most_devices + static_cast<std::uint64_t>(device);
  return std::exp(sigma * random_normal(seed, Stream::jitter, position) - sigma * sigma / 2);
}

double spread_factor(double sigma, std::int64_t device) {
  if (sigma == 0) return 1;
  double p = 1, digit = 0.5;
  for (std::int64_t left = device + 1; left > 0; left /= 2, digit /= 2)
    p -= digit * static_cast<double>(left % 2);
  return std::exp(sigma * (p < 0.5 ? -normal_quantile(1 - p) : normal_quantile(p)));
}

}  // namespace ringside::sim
