#include "peer/comm/sim/representatives.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace ringside::peer {
namespace {

/// The machines whose flows are moved. `used` is in order.
std::set<int> machines_that_stand_for_all(const sim::ClusterSpec& cluster,
                                          const std::vector<int>& used) {
  std::set<int> out = {used[0], used[1]};
  const auto leaf = [&](int machine) {
    return cluster.machines_per_switch > 0 ? machine / cluster.machines_per_switch : 0;
  };
  const auto leaves = std::adjacent_find(used.begin(), used.end(),
                                         [&](int a, int b) { return leaf(a) != leaf(b); });
  if (leaves != used.end()) out.insert({*leaves, *std::next(leaves)});
  return out;
}

}  // namespace

std::vector<Flow> representatives(const sim::ClusterSpec& cluster,
                                  const std::vector<sim::Place>& places,
                                  const std::vector<Flow>& flows, std::int64_t machines,
                                  std::int64_t ranks_of_machine) {
  std::map<int, std::multiset<int>> devices;  // by machine
  for (const sim::Place place : places) devices[place.machine].insert(place.device);
  if (devices.size() < 2) return flows;
  const bool alone = devices.begin()->second.size() == static_cast<std::size_t>(ranks_of_machine);
  if (!alone && static_cast<std::int64_t>(devices.size()) < machines) return flows;
  std::vector<int> used;
  for (const auto& [machine, its_devices] : devices) {
    if (its_devices != devices.begin()->second) return flows;
    used.push_back(machine);
  }
  const std::set<int> few = machines_that_stand_for_all(cluster, used);
  std::vector<Flow> out;
  std::copy_if(flows.begin(), flows.end(), std::back_inserter(out), [&](const Flow& flow) {
    return few.contains(flow.from.machine) || few.contains(flow.to.machine);
  });
  const double all = flow_seconds_per_byte(cluster, flows);
  return std::abs(flow_seconds_per_byte(cluster, out) - all) <= 1e-9 * all ? out : flows;
}

}  // namespace ringside::peer
