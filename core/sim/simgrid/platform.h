// Platform: a ClusterSpec as SimGrid's hosts, links and routes.
#pragma once

#include <simgrid/s4u.hpp>
#include <vector>

#include "core/sim/world.h"

namespace ringside::sim {

/// Of a core: work is told in nanoseconds, far above what SimGrid takes for 0.
inline constexpr double operations_of_second = 1e9;

/// Seconds until the first byte of a flow arrives. Every PCIe link, port pair of a switch, link of
/// a mesh and way from NIC to NIC counts its latency once: device to host pcie; device to device of
/// a machine peer, or 2 pcie without a peer link; device to a device of another machine
/// pcie + nic + pcie; host to host nic. A cpu to itself pcie, a gpu 0.
double latency(const ClusterSpec& cluster, Place from, Place to);

/// Throws Error for a bandwidth of 0 that a route needs. Before there is an engine, which cannot
/// end without a platform.
void require_bandwidths(const ClusterSpec& cluster);

/// One host a device and one a machine's CPU. A machine is a zone that lists its routes, machines
/// stand in a star, leaf switches in a star of stars, so that memory grows with the number of
/// machines. Links are full duplex. An engine must exist; all belongs to it.
///
/// Links have no latency here, who starts a flow adds it: SimGrid would share links by weights of
/// 1 / latency, and 3.32 forgets links of flows whose latency ends at the same moment.
class Platform {
 public:
  /// `cluster` has its bandwidths, and outlives the engine.
  explicit Platform(const ClusterSpec& cluster);

  /// Throws Error if there is no such place.
  simgrid::s4u::Host* at(Place place) const;
  /// False where a flow needs no time: from a gpu, or the host beside it, to itself.
  bool connected(Place from, Place to) const;

 private:
  /// Its gateway, which stands in `parent` already.
  simgrid::kernel::routing::NetPoint* make_machine(int machine, simgrid::s4u::NetZone* parent);
  simgrid::s4u::Host* make_host(Place place, simgrid::s4u::NetZone* machine);

  const ClusterSpec& cluster_;
  std::vector<simgrid::s4u::Host*> hosts_;
};

}  // namespace ringside::sim
