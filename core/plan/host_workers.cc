#include "core/plan/host_workers.h"

#include <algorithm>
#include <set>

#include "core/plan/places.h"

namespace ringside {

std::vector<int> workers_by_slots(int world, const std::vector<int>& slots,
                                  WorkerPlacement placement) {
  std::vector<int> out(slots.size());
  for (int left = world, taken = -1; left > 0 && taken != 0;) {
    taken = 0;
    for (std::size_t h = 0; h < slots.size() && left > 0; ++h) {
      const int room = slots[h] - out[h];
      const int more = std::min({room, left, placement == WorkerPlacement::fill ? room : 1});
      out[h] += more;
      left -= more;
      taken += more;
    }
  }
  return out;
}

std::vector<int> hosts_of_workers(int world, const std::optional<sim::ClusterSpec>& cluster,
                                  const std::vector<int>& slots, WorkerPlacement placement) {
  std::vector<int> out;
  if (cluster) {
    for (int worker = 0; worker < world; ++worker)
      out.push_back(place_of_worker(*cluster, worker).machine);
    return out;
  }
  const std::vector<int> counts = workers_by_slots(world, slots, placement);
  for (std::size_t h = 0; h < counts.size(); ++h)
    out.insert(out.end(), static_cast<std::size_t>(counts[h]), static_cast<int>(h));
  out.resize(static_cast<std::size_t>(world), std::max(0, static_cast<int>(slots.size()) - 1));
  return out;
}

std::vector<int> consecutive_workers(const std::vector<int>& hosts) {
  std::vector<int> out;
  for (std::size_t worker = 0; worker < hosts.size(); ++worker) {
    if (worker == 0 || hosts[worker] != hosts[worker - 1]) out.push_back(0);
    ++out.back();
  }
  return out;
}

std::optional<int> workers_of_each_host(const std::vector<int>& hosts) {
  const std::vector<int> counts = consecutive_workers(hosts);
  const bool even = std::all_of(counts.begin(), counts.end() - 1,
                                [&](int count) { return count == counts.front(); });
  if (!even || counts.back() > counts.front()) return {};
  if (std::set<int>(hosts.begin(), hosts.end()).size() != counts.size()) return {};
  return counts.front();
}

}  // namespace ringside
