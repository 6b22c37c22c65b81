// Differences between the devices of one cluster: kinds, slow devices, spread, jitter.
#pragma once

#include <cstdint>

#include "core/sim/cluster.h"

namespace ringside::sim {

/// The largest ClusterSpec::jitter and spread. The slowest of 1000 steps then takes about 60 times
/// as long as the mean, and the slowest of 1000 devices about 490 times as long as a typical one.
inline constexpr double most_jitter = 2;

/// The description of a machine's devices, and the factor by which operations of one of them take
/// longer than it says (SlowDevice; 1 for the host, device -1).
const DeviceSpec& device_of(const ClusterSpec& cluster, std::int64_t machine);
double slowness_of(const ClusterSpec& cluster, std::int64_t machine, std::int64_t device);
/// Multiplies the memory of all devices, but not of the hosts.
void scale_device_memory(ClusterSpec& cluster, double factor);

/// The factor by which operations of device `device`, counted machine by machine, take longer in
/// training step `step`: exp(sigma z - sigma^2 / 2), where z is a standard normal value that (seed,
/// device, step) alone decide. Its mean is 1 for any sigma.
double jitter_factor(double sigma, std::uint64_t seed, std::int64_t device, std::int64_t step);

/// The factor by which operations of device `device`, counted machine by machine, always take
/// longer: exp(sigma z), where the values z of devices 0, 1, 2, ... are the quantiles 1/2, 3/4,
/// 1/4, 7/8, ... of the standard normal distribution (1 minus van der Corput's sequence). So device
/// 0 is a typical one, without a draw, and the slowest of the first N is as slow as the slowest of
/// N drawn devices is on average, within 0.21 sigma.
double spread_factor(double sigma, std::int64_t device);

}  // namespace ringside::sim
