#include "core/sim/cluster.h"

#include <algorithm>
#include <cmath>

namespace ringside::sim {

using enum Range;

double Efficiency::at(double ideal_us) const {
  if (points.empty()) return 0;
  const auto above =
      std::upper_bound(points.begin(), points.end(), ideal_us,
                       [](double time, const auto& point) { return time < point.first; });
  if (above == points.begin()) return points.front().second;
  if (above == points.end()) return points.back().second;
  const auto& [x0, y0] = *(above - 1);
  const auto& [x1, y1] = *above;
  return y0 + (y1 - y0) * std::log(ideal_us / x0) / std::log(x1 / x0);
}

Fields fields_of(LinkSpec& link) {
  return {{"bandwidth_gbs", &link.gbs, {}, positive},
          {"latency_us", &link.latency_us, {}, not_negative},
          {"step_us", &link.step_us, {}, not_negative}};
}

Fields fields_of(DeviceSpec& device) {
  return {{"name", &device.name},
          {"kind", &device.kind},
          {"cores", &device.cores, {}, positive},
          {"busy_share", &device.busy_share, {}, share},
          {"memory_gb", &device.memory_gb, {}, positive},
          {"bandwidth_gbs", &device.bandwidth_gbs, {}, positive},
          {"launch_us", &device.launch_us, {}, not_negative},
          {"tflops", &device.tflops},
          {"efficiency", &device.efficiency}};
}

Fields fields_of(MessageSpec& message) {
  return {{"send_us", &message.send_us, {}, not_negative},
          {"receive_us", &message.receive_us, {}, not_negative},
          {"send_us_per_mb", &message.send_us_per_mb, {}, not_negative},
          {"receive_us_per_mb", &message.receive_us_per_mb, {}, not_negative}};
}

Fields fields_of(CollectiveSpec& collective) {
  return {{"kind", &collective.kind},
          {"base_us", &collective.base_us, {}, not_negative},
          {"sum", &collective.sum.points},
          {"copy", &collective.copy.points}};
}

Fields fields_of(OtherMachines& others) {
  return {{"first", &others.first, {}, not_negative},
          {"count", &others.count, {}, positive},
          {"device", fields_of(others.device)}};
}

Fields fields_of(SlowDevice& slow) {
  return {{"machine", &slow.machine, {}, not_negative},
          {"device", &slow.device},
          {"factor", &slow.factor, {}, positive}};
}

Fields fields_of(ClusterSpec& cluster) {
  return {{"name", &cluster.name},
          {"source", &cluster.source},
          {"machines", &cluster.machines, {}, positive},
          {"devices", &cluster.devices, {}, positive},
          {"device", fields_of(cluster.device)},
          {"host", fields_of(cluster.host)},
          {"others", Structs(&cluster.others)},
          {"slow", Structs(&cluster.slow)},
          {"jitter", &cluster.jitter, {}, not_negative},
          {"topology", &cluster.topology},
          {"peer", fields_of(cluster.peer)},
          {"mesh", &cluster.mesh},
          {"ring", &cluster.ring},
          {"pcie", fields_of(cluster.pcie)},
          {"pcie_root_gbs", &cluster.pcie_root_gbs, {}, not_negative},
          {"nics", &cluster.nics, {}, positive},
          {"nic", fields_of(cluster.nic)},
          {"machines_per_switch", &cluster.machines_per_switch, {}, not_negative},
          {"oversubscription", &cluster.oversubscription, {}, positive},
          {"collective", fields_of(cluster.collective)},
          {"message", fields_of(cluster.message)}};
}

}  // namespace ringside::sim
