#include "peer/comm/sim/channels.h"

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "peer/comm/sim/routes.h"

namespace ringside::peer {
namespace {

/// The ranks of one machine in the order in which channels lead through them. One may enter the
/// machine at the first rank of each NIC.
struct Machine {
  std::vector<int> ranks;
  std::vector<std::size_t> entries;  // where in `ranks` channels may enter
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

std::vector<Channel> channels_of(const sim::ClusterSpec& cluster,
                                 const std::vector<sim::Place>& places) {
  const std::vector<Machine> machines = machines_of(cluster, places);
  std::size_t count = machines.front().entries.size();
  for (const Machine& machine : machines) count = std::min(count, machine.entries.size());
  if (machines.size() == 1) count = 1;
  std::vector<Channel> channels(count);
  for (std::size_t c = 0; c < count; ++c)
    for (const Machine& machine : machines) {
      const std::size_t entry = machines.size() > 1 ? machine.entries[c] : 0;
      std::vector<int>& chain = channels[c].emplace_back();
      for (std::size_t i = 0; i < machine.ranks.size(); ++i)
        chain.push_back(machine.ranks[(entry + i) % machine.ranks.size()]);
    }
  return channels;
}

}  // namespace ringside::peer
