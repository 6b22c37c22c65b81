#include "core/sim/stated_errors.h"

#include <algorithm>

namespace ringside::sim {
namespace {

/// Cluster files allow no larger share of the ideal speed.
constexpr double largest_share = 16;

double times_as_long(double error, Bound bound) {
  return bound == Bound::slow ? 1 + error : 1 / (1 + error);
}

void scale(DeviceSpec& device, const std::string& dtype, Bound bound) {
  const auto found = device.error.find(dtype);
  if (found == device.error.end()) return;
  const double factor = times_as_long(found->second, bound);
  device.launch_us *= factor;
  for (auto& [of_dtype, classes] : device.efficiency)
    for (auto& [name, curve] : classes)
      for (auto& [time, share] : curve.points) share = std::min(share / factor, largest_share);
}

void scale(LinkSpec& link, double factor) {
  link.gbs /= factor;
  link.latency_us *= factor;
  link.step_us *= factor;
}

}  // namespace

bool states_errors(const ClusterSpec& cluster, const std::string& dtype) {
  return cluster.device.error.contains(dtype) &&
         std::all_of(cluster.others.begin(), cluster.others.end(), [&](const OtherMachines& other) {
           return other.device.error.contains(dtype);
         });
}

ClusterSpec at_bound(const ClusterSpec& cluster, const std::string& dtype, Bound bound) {
  ClusterSpec out = cluster;
  scale(out.device, dtype, bound);
  scale(out.host, dtype, bound);
  for (OtherMachines& other : out.others) scale(other.device, dtype, bound);

  if (const auto found = cluster.device.error.find(dtype); found != cluster.device.error.end())
    for (TimedOperation& one : out.timed)
      for (double* us : {&one.us, &one.memory_us}) *us *= times_as_long(found->second, bound);

  const double factor = times_as_long(cluster.collective.error, bound);
  for (LinkSpec* link : {&out.peer, &out.pcie, &out.nic}) scale(*link, factor);
  out.pcie_root_gbs /= factor;
  out.collective.base_us *= factor;
  out.collective.copy_out_gbs /= factor;
  for (Efficiency* curve : {&out.collective.sum, &out.collective.copy})
    for (auto& [time, share] : curve->points) share = std::min(share / factor, largest_share);
  for (double* time : {&out.message.send_us, &out.message.receive_us, &out.message.send_us_per_mb,
                       &out.message.receive_us_per_mb, &out.message.network_us,
                       &out.message.network_us_per_mb, &out.message.loopback_us,
                       &out.message.loopback_us_per_mb, &out.collective.network_us_per_mb})
    *time *= factor;
  return out;
}

}  // namespace ringside::sim
