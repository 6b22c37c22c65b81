#include "core/sim/simgrid/platform.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/sim/uneven.h"

namespace ringside::sim {
namespace {

namespace s4u = simgrid::s4u;
using NetPoint = simgrid::kernel::routing::NetPoint;

constexpr double giga = 1e9;

/// The links of a connection, one for each direction.
struct Duplex {
  s4u::Link* up = nullptr;
  s4u::Link* down = nullptr;
};

s4u::Link* make_link(s4u::NetZone* zone, const std::string& name, double gbs) {
  s4u::Link* link = zone->create_link(name, gbs * giga);
  link->seal();
  return link;
}

Duplex make_duplex(s4u::NetZone* zone, const std::string& name, double gbs) {
  return {make_link(zone, name + " up", gbs), make_link(zone, name + " down", gbs)};
}

void require(const ClusterSpec& cluster, double gbs, const char* field) {
  if (!(gbs > 0) || gbs > std::numeric_limits<double>::max())
    throw Error("cluster '{}': {} = {}; it must be above 0", cluster.name, field, gbs);
}

bool in_mesh(const ClusterSpec& cluster, int a, int b) {
  return std::any_of(cluster.mesh.begin(), cluster.mesh.end(), [&](const auto& pair) {
    return (pair.first == a && pair.second == b) || (pair.first == b && pair.second == a);
  });
}

void add_route(s4u::NetZone* zone, NetPoint* from, NetPoint* to,
               const std::vector<s4u::Link*>& links) {
  std::vector<s4u::LinkInRoute> route;
  for (s4u::Link* link : links)
    if (link) route.emplace_back(link);
  zone->add_route(from, to, nullptr, nullptr, route, false);
}

/// Connects `child` to the rest of `star`; `links` lead out of and into `child`.
void join(s4u::NetZone* star, s4u::NetZone* child, NetPoint* gateway, const Duplex& links) {
  std::vector<s4u::LinkInRoute> up, down;
  if (links.up) up.emplace_back(links.up);
  if (links.down) down.emplace_back(links.down);
  star->add_route(child->get_netpoint(), nullptr, gateway, nullptr, up, false);
  star->add_route(nullptr, child->get_netpoint(), nullptr, gateway, down, false);
}

}  // namespace

double latency(const ClusterSpec& cluster, Place from, Place to) {
  constexpr double micro = 1e-6;
  const double pcie = cluster.pcie.latency_us * micro;
  if (from == to) return cluster.device.kind == DeviceKind::cpu ? pcie : 0;
  const double ends = (from.device < 0 ? 0 : pcie) + (to.device < 0 ? 0 : pcie);
  if (from.machine != to.machine) return ends + cluster.nic.latency_us * micro;
  const bool devices = from.device >= 0 && to.device >= 0;
  if (devices && (cluster.topology == Topology::nvlink_switch ||
                  (cluster.topology == Topology::mesh && in_mesh(cluster, from.device, to.device))))
    return cluster.peer.latency_us * micro;
  return ends;
}

void require_bandwidths(const ClusterSpec& cluster) {
  require(cluster, cluster.pcie.gbs, "pcie bandwidth");
  if (cluster.topology != Topology::pcie) require(cluster, cluster.peer.gbs, "peer bandwidth");
  if (cluster.machines > 1) require(cluster, cluster.nic.gbs, "nic bandwidth");
}

Platform::Platform(const ClusterSpec& cluster) : cluster_(cluster) {
  hosts_.reserve(static_cast<std::size_t>(cluster.machines * (cluster.devices + 1)));

  s4u::NetZone* root = s4u::create_star_zone("cluster");
  if (cluster.storage.shared_gbs > 0)
    shared_storage_ = make_link(root, "shared storage", cluster.storage.shared_gbs);
  const std::int64_t per_switch = cluster.machines_per_switch;
  if (per_switch == 0) {
    for (int machine = 0; machine < cluster.machines; ++machine) make_machine(machine, root);
  } else {
    const double gbs = static_cast<double>(per_switch * cluster.nics) * cluster.nic.gbs;
    int machine = 0;
    for (int leaf = 0; machine < cluster.machines; ++leaf) {
      const std::string name = fmt::format("leaf {}", leaf);
      s4u::NetZone* zone = s4u::create_star_zone(name);
      zone->set_parent(root);
      NetPoint* const gateway = make_machine(machine++, zone);
      while (machine < cluster.machines && machine % per_switch != 0) make_machine(machine++, zone);
      zone->seal();
      Duplex uplink;
      if (cluster.machines > 1)
        uplink = make_duplex(root, name + " uplink", gbs / cluster.oversubscription);
      join(root, zone, gateway, uplink);
    }
  }
  root->seal();
}

s4u::Host* Platform::make_host(Place place, s4u::NetZone* machine) {
  const bool device = place.device >= 0;
  const std::string name = device ? fmt::format("machine {} device {}", place.machine, place.device)
                                  : fmt::format("machine {} host", place.machine);
  const DeviceSpec& spec = device ? device_of(cluster_, place.machine) : cluster_.host;
  const std::int64_t cores = device && spec.kind != DeviceKind::cpu ? 1 : spec.cores;
  // One resource stands for all cores together; an operation gets the speed of one core at most.
  const double together = static_cast<double>(cores) * spec.busy_share;
  s4u::Host* host = machine->create_host(name, operations_of_second * std::max(1.0, together));
  host->seal();
  hosts_.push_back(host);
  return host;
}

NetPoint* Platform::make_machine(int index, s4u::NetZone* parent) {
  const std::string prefix = fmt::format("machine {}", index);
  s4u::NetZone* zone = s4u::create_full_zone(prefix);
  zone->set_parent(parent);
  NetPoint* gateway = zone->create_router(prefix + " gateway");

  // Hosts and links. The first host, device -1, is the machine's own CPU.
  const auto devices = static_cast<int>(cluster_.devices);
  struct End {
    NetPoint* point;
    Duplex pcie, peer, nic;
    s4u::Link* memory = nullptr;
  };
  std::vector<Duplex> nics;
  for (int nic = 0; cluster_.machines > 1 && nic < cluster_.nics; ++nic)
    nics.push_back(make_duplex(zone, fmt::format("{} nic {}", prefix, nic), cluster_.nic.gbs));
  Duplex root;
  if (cluster_.pcie_root_gbs > 0)
    root = make_duplex(zone, prefix + " pcie root", cluster_.pcie_root_gbs);
  if (cluster_.device.kind == DeviceKind::cpu) {
    memories_.push_back(zone->create_host(prefix + " memory", operations_of_second));
    memories_.back()->seal();
  }
  std::vector<End> ends;
  for (int device = -1; device < devices; ++device) {
    s4u::Host* host = make_host({index, device}, zone);
    End end{};
    end.point = host->get_netpoint();
    if (!nics.empty())
      end.nic = nics[static_cast<std::size_t>(
          device < 0 ? 0 : device * cluster_.nics / cluster_.devices)];
    if (device >= 0) {
      end.pcie = make_duplex(zone, host->get_name() + " pcie", cluster_.pcie.gbs);
      if (cluster_.topology == Topology::nvlink_switch)
        end.peer = make_duplex(zone, host->get_name() + " port", cluster_.peer.gbs);
    }
    if (cluster_.device.kind == DeviceKind::cpu)
      end.memory = make_link(zone, host->get_name() + " memory", cluster_.pcie.gbs);
    ends.push_back(end);
  }
  std::map<std::pair<int, int>, int> pairs;
  if (cluster_.topology == Topology::mesh)
    for (const auto& [a, b] : cluster_.mesh) {
      ++pairs[{static_cast<int>(a), static_cast<int>(b)}];
      ++pairs[{static_cast<int>(b), static_cast<int>(a)}];
    }

  if (cluster_.storage.gbs > 0) {
    storages_.push_back(zone->create_host(prefix + " storage", operations_of_second));
    storages_.back()->seal();
    add_route(zone, ends[0].point, storages_.back()->get_netpoint(),
              {make_link(zone, prefix + " way to storage", cluster_.storage.gbs), shared_storage_});
  }

  // Routes.
  for (int a = -1; a < devices; ++a) {
    const End& from = ends[static_cast<std::size_t>(a + 1)];
    const bool device = a >= 0;
    if (!nics.empty()) {
      add_route(zone, from.point, gateway, {from.pcie.up, device ? root.up : nullptr, from.nic.up});
      add_route(zone, gateway, from.point,
                {from.nic.down, device ? root.down : nullptr, from.pcie.down});
    }
    for (int b = -1; b < devices; ++b) {
      const End& to = ends[static_cast<std::size_t>(b + 1)];
      if (a == b) {
        if (from.memory) add_route(zone, from.point, to.point, {from.memory});
      } else if (const auto pair = pairs.find({a, b}); pair != pairs.end()) {
        add_route(zone, from.point, to.point,
                  {make_link(zone, fmt::format("{} mesh {}-{}", prefix, a, b),
                             cluster_.peer.gbs * pair->second)});
      } else if (from.peer.up && to.peer.down) {
        add_route(zone, from.point, to.point, {from.peer.up, to.peer.down});
      } else {
        add_route(
            zone, from.point, to.point,
            {from.pcie.up, device ? root.up : nullptr, b >= 0 ? root.down : nullptr, to.pcie.down});
      }
    }
  }
  zone->seal();
  join(parent, zone, gateway, {});
  return gateway;
}

s4u::Host* Platform::at(Place place) const {
  if (place.machine < 0 || place.machine >= cluster_.machines || place.device < -1 ||
      place.device >= cluster_.devices)
    throw Error("cluster '{}' has no device {} of machine {}: it has {} machines of {} devices",
                cluster_.name, place.device, place.machine, cluster_.machines, cluster_.devices);
  return hosts_[static_cast<std::size_t>(place.machine * (cluster_.devices + 1) + place.device +
                                         1)];
}

s4u::Host* Platform::memory(int machine) const {
  return memories_.empty() ? nullptr : memories_.at(static_cast<std::size_t>(machine));
}

s4u::Host* Platform::storage(int machine) const {
  return storages_.empty() ? nullptr : storages_.at(static_cast<std::size_t>(machine));
}

bool Platform::connected(Place from, Place to) const {
  return !(from == to) || cluster_.device.kind == DeviceKind::cpu;
}

}  // namespace ringside::sim
