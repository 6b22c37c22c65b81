#include "peer/comm/sim/busy.h"

#include <algorithm>
#include <array>
#include <map>

#include "peer/comm/sim/routes.h"

namespace ringside::peer {
namespace {

constexpr double giga = 1e9;

/// How long each link of the cluster is busy, in seconds, when every flow moves its share of one
/// byte. The links are the same as in the simulated world.
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
    if (gbs > 0) busy_[link] += share / (gbs * giga);
  }

  const sim::ClusterSpec& cluster_;
  std::map<Link, double> busy_;
};

}  // namespace

double busiest_link_seconds(const sim::ClusterSpec& cluster, const std::vector<RingFlow>& flows) {
  Busy busy(cluster);
  for (const RingFlow& flow : flows) busy.add(flow.from, flow.to, flow.share);
  return busy.longest();
}

}  // namespace ringside::peer
