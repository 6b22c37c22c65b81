// Platform: a ClusterSpec made of SimGrid's hosts, links and routes.
#pragma once

#include <simgrid/s4u.hpp>
#include <vector>

#include "core/sim/world.h"

namespace ringside::sim {

/// Speed of a core, in operations per second for SimGrid. An operation of work thus takes a
/// nanosecond. (With work counted in seconds, SimGrid would treat small amounts as 0.)
inline constexpr double operations_of_second = 1e9;

/// Seconds until the first byte of a flow arrives: the sum of the latencies on its way, which are
/// the cluster's pcie.latency_us for each PCIe link, peer.latency_us for a link of a mesh or for a
/// pair of switch ports, and nic.latency_us for the path from NIC to NIC. So the latency is pcie
/// from a device to its host; peer between two devices of a machine, or 2 * pcie if no peer link
/// joins them; pcie + nic + pcie between devices of two machines; nic between two hosts. From a
/// place to itself it is pcie if the cluster's devices are CPUs, otherwise 0.
double latency(const ClusterSpec& cluster, Place from, Place to);

/// Throws Error if a bandwidth that a route needs is 0. To be called before an engine is made, as
/// an engine cannot end without a platform.
void require_bandwidths(const ClusterSpec& cluster);

/// Makes one SimGrid host for each device and one for each machine's CPU. A machine is a zone with
/// a list of routes; machines form a star, or a star of stars if there are leaf switches, so that
/// memory grows with the number of machines, not with its square. Links are full duplex. An engine
/// must exist; it owns everything that is made here.
///
/// SimGrid's links get no latency; the code that starts a flow adds it. Otherwise SimGrid would
/// share links by weights of 1 / latency, and SimGrid 3.32 forgets the links of flows whose
/// latencies end at the same moment.
class Platform {
 public:
  /// `cluster` must have passed require_bandwidths(), and must outlive the engine.
  explicit Platform(const ClusterSpec& cluster);

  /// Returns the host of a place. Throws Error if the cluster has no such place.
  simgrid::s4u::Host* at(Place place) const;
  /// The memory bandwidth that the cores of a machine share, as a SimGrid host: work that needs all
  /// of the bandwidth computes on it for that time. Null where devices are not CPUs: each has its
  /// own memory.
  simgrid::s4u::Host* memory(int machine) const;
  /// What a machine's host writes checkpoints to; null if the cluster does not say how fast it is.
  simgrid::s4u::Host* storage(int machine) const;
  /// Whether a flow between the places needs time. On machines with GPUs, a flow from a place to
  /// itself needs none.
  bool connected(Place from, Place to) const;

 private:
  /// Makes a machine inside `parent`, and returns its gateway.
  simgrid::kernel::routing::NetPoint* make_machine(int machine, simgrid::s4u::NetZone* parent);
  simgrid::s4u::Host* make_host(Place place, simgrid::s4u::NetZone* machine);

  const ClusterSpec& cluster_;
  std::vector<simgrid::s4u::Host*> hosts_, memories_, storages_;
  simgrid::s4u::Link* shared_storage_ = nullptr;
};

}  // namespace ringside::sim
