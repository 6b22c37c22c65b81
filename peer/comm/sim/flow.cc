#include "peer/comm/sim/flow.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "peer/comm/sim/routes.h"

namespace ringside::peer {
namespace {

constexpr double gb = 1e9;  // bytes

/// The time for which each link of the cluster is busy, in seconds, when every flow moves its share
/// of one byte. The links are the same as in the simulated world.
class Busy {
 public:
  explicit Busy(const sim::ClusterSpec& cluster) : cluster_(cluster) {}

  void add(sim::Place from, sim::Place to, double share) {
    if (from == to) {
      if (cluster_.device.kind == sim::DeviceKind::cpu)
        cross({memory, from.machine, from.device}, pcie(), share);
      return;
    }
    const bool devices = has_device(from) && has_device(to);
    const bool inside = from.machine == to.machine;
    if (inside && devices && cluster_.topology == sim::Topology::nvlink_switch) {
      cross({port_up, from.machine, from.device}, cluster_.peer.gbs, share);
      return cross({port_down, to.machine, to.device}, cluster_.peer.gbs, share);
    }
    if (const auto links = links_between(cluster_, from, to); inside && devices && links > 0)
      return cross({pair, from.machine, from.device, to.device},
                   cluster_.peer.gbs * static_cast<double>(links), share);
    if (has_device(from)) {
      cross({pcie_up, from.machine, from.device}, pcie(), share);
      cross({root_up, from.machine}, cluster_.pcie_root_gbs, share);
    }
    if (!inside) between(from, to, share);
    if (has_device(to)) {
      cross({root_down, to.machine}, cluster_.pcie_root_gbs, share);
      cross({pcie_down, to.machine, to.device}, pcie(), share);
    }
  }

  double longest() const {
    double longest = 0;
    for (const auto& [link, seconds] : busy_) longest = std::max(longest, seconds);
    return longest;
  }

 private:
  enum Kind { memory, port_up, port_down, pair, pcie_up, pcie_down, root_up, root_down };
  enum { nic_up = root_down + 1, nic_down, leaf_up, leaf_down };
  using Link = std::array<int, 4>;

  double pcie() const { return cluster_.pcie.gbs; }

  void between(sim::Place from, sim::Place to, double share) {
    cross({nic_up, from.machine, nic_of(cluster_, from)}, cluster_.nic.gbs, share);
    cross({nic_down, to.machine, nic_of(cluster_, to)}, cluster_.nic.gbs, share);
    const auto machines = static_cast<int>(cluster_.machines_per_switch);
    if (machines == 0 || from.machine / machines == to.machine / machines) return;
    const double gbs = static_cast<double>(machines * cluster_.nics) * cluster_.nic.gbs /
                       cluster_.oversubscription;
    cross({leaf_up, from.machine / machines}, gbs, share);
    cross({leaf_down, to.machine / machines}, gbs, share);
  }

  /// Adds a flow to a link; a bandwidth of 0 means no limit.
  void cross(Link link, double gbs, double share) {
    if (gbs > 0) busy_[link] += share / (gbs * gb);
  }

  const sim::ClusterSpec& cluster_;
  std::map<Link, double> busy_;
};

}  // namespace

Flow flow_between(sim::World& world, sim::Place from, sim::Place to, double share) {
  return {from, to, world.latency(from, to), share};
}

std::vector<Flow> merged(std::vector<Flow> flows) {
  const auto key = [](const Flow& f) {
    return std::tuple(-f.latency, f.from.machine, f.from.device, f.to.machine, f.to.device);
  };
  std::sort(flows.begin(), flows.end(),
            [&](const Flow& a, const Flow& b) { return key(a) < key(b); });
  std::vector<Flow> merged;
  for (const Flow& flow : flows) {
    if (!merged.empty() && key(merged.back()) == key(flow))
      merged.back().share += flow.share;
    else
      merged.push_back(flow);
  }
  return merged;
}

double flow_seconds_per_byte(const sim::ClusterSpec& cluster, const std::vector<Flow>& flows) {
  Busy busy(cluster);
  for (const Flow& flow : flows) busy.add(flow.from, flow.to, flow.share);
  return busy.longest();
}

void move_flows(sim::World& world, double latency, const std::vector<Flow>& flows, double bytes) {
  if (bytes == 0) return world.sleep(latency);
  std::vector<sim::JobPtr> under_way;
  // A flow's bytes begin to move `flow.latency` seconds after its start, so each flow is started
  // that much earlier, flows of long latency first.
  double left = latency;
  for (const Flow& flow : flows) {
    if (left > flow.latency) {
      world.sleep(left - flow.latency);
      left = flow.latency;
    }
    under_way.push_back(world.start_flow(flow.from, flow.to, bytes * flow.share));
  }
  for (const auto& flow : under_way) flow->wait();
}

}  // namespace ringside::peer
