#include "peer/comm/sim/rings.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "peer/comm/sim/mesh_rings.h"
#include "peer/comm/sim/representatives.h"

namespace ringside::peer {
namespace {

constexpr double mega = 1e6, giga = 1e9;

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
  const sim::LinkSpec& link = link_of_group(world_.cluster(), several);
  by_mb_ = &link.by_mb;
  queue_share_ = sim::share_of_queue(link);
  for (const std::vector<int>& order : rings_in_mesh(world_.cluster(), places_)) add_ring(order);
  if (rings_.empty()) add_rings_by_machine();
  std::vector<RingFlow> hops;
  for (int channel = 0; channel < channels(); ++channel)
    for (int r = 0; r < size(); ++r) hops.push_back(flow(r, next(channel, r)));
  flows_ = merged(std::move(hops));
  pace_ = pace_of(flows_);
  if (group.options().machines > 0)
    flows_ = representatives(world_.cluster(), places_, flows_, group.options().machines);
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
  if (by_mb_->points.empty() || whole == 0) return whole / queue_share_;
  return whole / (by_mb_->at(whole / mega) * queue_share_);
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
