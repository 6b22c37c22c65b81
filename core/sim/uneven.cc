#include "core/sim/uneven.h"

#include <cmath>

#include "core/base/random.h"

namespace ringside::sim {

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

}  // namespace ringside::sim
