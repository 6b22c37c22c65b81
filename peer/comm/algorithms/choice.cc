#include "peer/comm/algorithms/choice.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"

namespace ringside::peer {
namespace {

bool can_use(const AlgorithmRow& row, const std::vector<int>& hosts) {
  try {
    if (row.check) row.check(hosts);
    return true;
  } catch (const Error&) {
    return false;
  }
}

double seconds_of(const Round& round, std::size_t element, const LinkCosts& costs) {
  const auto on_one_host = [&](int from, int to) {
    return costs.hosts[static_cast<std::size_t>(from)] == costs.hosts[static_cast<std::size_t>(to)];
  };
  std::map<std::tuple<bool, int, bool>, double> seconds;  // by port or NIC and direction
  double moving = 0;
  for (const Transfer& one : round.transfers) {
    const auto from = static_cast<std::size_t>(one.from), to = static_cast<std::size_t>(one.to);
    const bool within = on_one_host(one.from, one.to);
    const double bytes = static_cast<double>(one.count) * static_cast<double>(element);
    const double time = bytes * (within ? costs.within_s_per_byte : costs.between_s_per_byte);
    const int out = within ? one.from : costs.nics[from], in = within ? one.to : costs.nics[to];
    moving = std::max(
        {moving, seconds[{within, out, true}] += time, seconds[{within, in, false}] += time});
  }
  return moving + latency_of(round, [&](int from, int to) {
           return on_one_host(from, to) ? costs.within_s : costs.between_s;
         });
}

}  // namespace

LinkCosts link_costs(const sim::ClusterSpec& cluster, const std::vector<sim::Place>& ranks) {
  const sim::LinkSpec& within =
      cluster.topology == sim::Topology::pcie ? cluster.pcie : cluster.peer;
  const auto fixed = [](const sim::LinkSpec& link) {
    return 1e-6 * std::max(link.step_us, link.latency_us);
  };
  LinkCosts out{
      fixed(within), fixed(cluster.nic), 1e-9 / within.gbs, 1e-9 / cluster.nic.gbs, {}, {}};
  for (const sim::Place& place : ranks) {
    out.hosts.push_back(place.machine);
    out.nics.push_back(static_cast<int>(place.machine * cluster.nics +
                                        place.device * cluster.nics / cluster.devices));
  }
  return out;
}

double seconds_of(const std::vector<Round>& rounds, std::size_t element, const LinkCosts& costs) {
  double seconds = 0;
  for (const Round& round : rounds) seconds += seconds_of(round, element, costs);
  return seconds;
}

const AlgorithmRow& Choice::row(const Collective& call, std::int64_t count, std::size_t element) {
  if (fixed_) return *fixed_;
  const AlgorithmRow*& best = known_[{call.kind, count, element}];
  if (best) return *best;
  double fastest = std::numeric_limits<double>::infinity();
  for (const AlgorithmRow& row : algorithm_rows()) {
    if (!can_use(row, costs_.hosts)) continue;
    const double seconds = seconds_of(schedule_of(row, call, count, costs_.hosts), element, costs_);
    if (seconds >= fastest) continue;
    fastest = seconds;
    best = &row;
  }
  return *best;
}

}  // namespace ringside::peer
