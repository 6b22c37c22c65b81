#include "experiments/runner/registry/rank_devices.h"

#include <algorithm>
#include <map>
#include <utility>

#include "experiments/runner/registry/registry.h"

namespace ringside::runner {

void number_devices(RunPlan& plan, const DevicesOfRank& seen) {
  std::map<std::pair<std::string, std::string>, int> taken;  // by host and identity
  for (RankPlan& rank : plan.ranks) {
    const std::string& kind = device_kind(plan, rank);
    if (!find_device(kind).devices) continue;
    const std::vector<std::string>& choice = seen(kind, rank.rank);
    RankHome* const home =
        plan.homes.empty() ? nullptr : &plan.homes.at(static_cast<std::size_t>(rank.rank));
    const std::string host = home ? home->host : "";
    const auto least =
        std::min_element(choice.begin(), choice.end(), [&](const auto& a, const auto& b) {
          return taken[{host, a}] < taken[{host, b}];
        });
    ++taken[{host, *least}];
    rank.ordinal = static_cast<int>(least - choice.begin());
    if (home) home->device = *least;
  }
}

void set_environments(RunPlan& plan) {
  for (RankPlan& rank : plan.ranks)
    rank.environment = find_device(device_kind(plan, rank)).environment(plan, rank.rank);
}

}  // namespace ringside::runner
