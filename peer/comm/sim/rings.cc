#include "peer/comm/sim/rings.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "peer/comm/sim/mesh_rings.h"

namespace ringside::peer {
namespace {

constexpr double mega = 1e6, giga = 1e9;

int nic_of(const sim::ClusterSpec& cluster, sim::Place place) {
  return has_device(place) ? static_cast<int>(place.device * cluster.nics / cluster.devices) : 0;
}

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

/// The ranks of one machine in the order in which rings lead through them. A ring may enter the
/// machine at the first rank of each NIC.
struct Machine {
  std::vector<int> ranks;
  std::vector<std::size_t> entries;  // where in `ranks` rings may enter
};

std::vector<Machine> machines_of(const sim::ClusterSpec& cluster,
                                 const std::vector<sim::Place>& places) {
  const auto position = [&](int device) -> std::int64_t {
    const auto found = std::find(cluster.ring.begin(), cluster.ring.end(), device);
    return found == cluster.ring.end() ? device : found - cluster.ring.begin();
  };
  std::vector<std::tuple<int, std::int64_t, int>> order;  // machine, position, rank
  for (int r = 0; r < static_cast<int>(places.size()); ++r) {
    const sim::Place place = places[static_cast<std::size_t>(r)];
    order.emplace_back(place.machine, position(place.device), r);
  }
  std::sort(order.begin(), order.end());
  std::vector<Machine> machines;
  std::vector<int> nics;  // of machines.back()
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto [machine, where, rank] = order[i];
    if (i == 0 || machine != std::get<0>(order[i - 1])) {
      machines.emplace_back();
      nics.clear();
    }
    const int nic = nic_of(cluster, places[static_cast<std::size_t>(rank)]);
    if (std::find(nics.begin(), nics.end(), nic) == nics.end()) {
      nics.push_back(nic);
      machines.back().entries.push_back(machines.back().ranks.size());
    }
    machines.back().ranks.push_back(rank);
  }
  return machines;
}

}  // namespace

Rings::Rings(const SimGroup& group) : world_(group.world()) {
  for (int r = 0; r < group.size(); ++r) places_.push_back(group.place(r));
  const bool several = std::any_of(places_.begin(), places_.end(), [&](sim::Place place) {
    return place.machine != places_[0].machine;
  });
  by_mb_ = &link_of_group(world_.cluster(), several).by_mb;
  for (const std::vector<int>& order : rings_in_mesh(world_.cluster(), places_)) add_ring(order);
  if (rings_.empty()) add_rings_by_machine();
  std::vector<RingFlow> hops;
  for (int channel = 0; channel < channels(); ++channel)
    for (int r = 0; r < size(); ++r) hops.push_back(flow(r, next(channel, r)));
  flows_ = merged(std::move(hops));
  pace_ = pace_of(flows_);
}

void Rings::add_rings_by_machine() {
  const std::vector<Machine> machines = machines_of(world_.cluster(), places_);
  std::size_t channels = machines.front().entries.size();
  for (const Machine& machine : machines) channels = std::min(channels, machine.entries.size());
  if (machines.size() == 1) channels = 1;
  for (std::size_t channel = 0; channel < channels; ++channel) {
    std::vector<int> order;
    for (const Machine& machine : machines) {
      const std::size_t entry = machines.size() > 1 ? machine.entries[channel] : 0;
      for (std::size_t i = 0; i < machine.ranks.size(); ++i)
        order.push_back(machine.ranks[(entry + i) % machine.ranks.size()]);
    }
    add_ring(order);
  }
}

void Rings::add_ring(const std::vector<int>& order) {
  const std::size_t p = order.size();
  Ring ring;
  ring.next.resize(p);
  ring.previous.resize(p);
  std::vector<double> steps;
  for (std::size_t i = 0; i < p; ++i) {
    const int from = order[i], to = order[(i + 1) % p];
    ring.next[static_cast<std::size_t>(from)] = to;
    ring.previous[static_cast<std::size_t>(to)] = from;
    steps.push_back(step(from, to));
    ring.total += steps.back();
  }
  // Data that goes once round a ring crosses all hops but one; data that goes twice round leaves
  // out two neighbouring hops the second time. The slowest way leaves out the fastest hops.
  double fastest = std::numeric_limits<double>::infinity(), fastest_two = fastest;
  for (std::size_t i = 0; i < p; ++i) {
    fastest = std::min(fastest, steps[i]);
    fastest_two = std::min(fastest_two, steps[i] + steps[(i + 1) % p]);
  }
  fastest_ = std::min(fastest_, fastest);
  once_ = std::max(once_, ring.total - fastest);
  twice_ = std::max(twice_, 2 * ring.total - fastest_two);
  rings_.push_back(std::move(ring));
}

double Rings::bytes(const Call& call) const {
  const auto whole = static_cast<double>(call.bytes);
  if (by_mb_->points.empty() || whole == 0) return whole;
  return whole / by_mb_->at(whole / mega);
}

double Rings::once(const Call& call) const {
  const sim::CollectiveSpec& collective = world_.cluster().collective;
  const bool copies = call.kind == Call::Kind::all_reduce || call.kind == Call::Kind::all_gather;
  const double base = collective.base_us * 1e-6;
  if (!copies || collective.copy_out_gbs == 0) return base;
  return base + static_cast<double>(call.bytes) / size() / (collective.copy_out_gbs * giga);
}

RingFlow Rings::flow(int from, int to) const {
  return {place(from), place(to), world_.latency(place(from), place(to)), 1};
}

std::vector<RingFlow> Rings::merged(std::vector<RingFlow> flows) const {
  const auto key = [](const RingFlow& f) {
    return std::tuple(-f.latency, f.from.machine, f.from.device, f.to.machine, f.to.device);
  };
  std::sort(flows.begin(), flows.end(),
            [&](const RingFlow& a, const RingFlow& b) { return key(a) < key(b); });
  std::vector<RingFlow> merged;
  for (const RingFlow& flow : flows) {
    if (!merged.empty() && key(merged.back()) == key(flow))
      merged.back().share += flow.share;
    else
      merged.push_back(flow);
  }
  return merged;
}

double Rings::pace_of(const std::vector<RingFlow>& flows) const {
  Busy busy(world_.cluster());
  for (const RingFlow& flow : flows) busy.add(flow.from, flow.to, flow.share);
  return busy.longest();
}

double Rings::latency_of_chain(int root) const {
  double longest = 0;
  for (int channel = 0; channel < channels(); ++channel)
    longest = std::max(longest, of(channel).total - step(previous(channel, root), root));
  return longest;
}

double Rings::latency_of_round(int round) const {
  double longest = 0;
  for (int r = 0; r < size(); ++r) longest = std::max(longest, step(r, (r + round + 1) % size()));
  return longest;
}

std::vector<RingFlow> Rings::flows_of_chain(int root) const {
  std::vector<RingFlow> hops;
  for (int channel = 0; channel < channels(); ++channel)
    for (int r = 0; r < size(); ++r)
      if (next(channel, r) != root) hops.push_back(flow(r, next(channel, r)));
  return merged(std::move(hops));
}

std::vector<RingFlow> Rings::flows_of_round(int round) const {
  std::vector<RingFlow> flows;
  for (int r = 0; r < size(); ++r) flows.push_back(flow(r, (r + round + 1) % size()));
  return merged(std::move(flows));
}

}  // namespace ringside::peer
