#include "peer/comm/sim/routes.h"

#include <algorithm>
#include <utility>

#include "core/sim/uneven.h"

namespace ringside::peer {

int nic_of(const sim::ClusterSpec& cluster, sim::Place place) {
  return has_device(place) ? static_cast<int>(place.device * cluster.nics / cluster.devices) : 0;
}

std::int64_t links_between(const sim::ClusterSpec& cluster, sim::Place a, sim::Place b) {
  if (cluster.topology != sim::Topology::mesh || a.machine != b.machine) return 0;
  return std::count_if(cluster.mesh.begin(), cluster.mesh.end(), [&](const auto& pair) {
    return pair == std::pair<std::int64_t, std::int64_t>(a.device, b.device) ||
           pair == std::pair<std::int64_t, std::int64_t>(b.device, a.device);
  });
}

double seconds_in_memory(const sim::ClusterSpec& cluster, sim::Place place, double bytes,
                         bool sums) {
  const double ideal = bytes / (device_of(cluster, place.machine).bandwidth_gbs * 1e9);
  if (ideal == 0) return 0;
  const double share = (sums ? cluster.collective.sum : cluster.collective.copy).at(ideal * 1e6);
  return slowness_of(cluster, place.machine, place.device) * ideal / share;
}

const sim::LinkSpec& link_of_group(const sim::ClusterSpec& cluster, bool several_machines) {
  if (several_machines) return cluster.nic;
  return cluster.topology == sim::Topology::pcie ? cluster.pcie : cluster.peer;
}

double step_seconds(sim::World& world, sim::Place from, sim::Place to, const TuningRow& row) {
  const sim::ClusterSpec& cluster = world.cluster();
  const bool devices = has_device(from) && has_device(to);
  double step = 0;
  if (from.machine != to.machine)
    step = step_us(row, LinkKind::network, cluster.nic.step_us);
  else if (devices && from != to &&
           (cluster.topology == sim::Topology::nvlink_switch ||
            links_between(cluster, from, to) > 0))
    step = step_us(row, LinkKind::nvlink, cluster.peer.step_us);
  else if (from != to)
    step = step_us(row, LinkKind::pcie, cluster.pcie.step_us);
  return std::max(1e-6 * step, world.latency(from, to));
}

}  // namespace ringside::peer
