#include "experiments/tools/bench/interleaving.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace ringside::tools::bench {

CallTimes call_times(std::vector<double> us, std::int64_t bytes, double bus_factor) {
  std::sort(us.begin(), us.end());
  const auto quantile = [&](double share) {
    const auto index = static_cast<std::size_t>(share * static_cast<double>(us.size()));
    return us[std::min(us.size() - 1, index)];
  };
  CallTimes times;
  times.p50 = quantile(0.5);
  times.p95 = quantile(0.95);
  times.p99 = quantile(0.99);
  times.min = us.front();
  times.max = us.back();
  times.avg = std::accumulate(us.begin(), us.end(), 0.0) / static_cast<double>(us.size());
  times.alg_bw = times.p50 > 0 ? static_cast<double>(bytes) / times.p50 * 1e-3 : 0;
  times.bus_bw = times.alg_bw * bus_factor;
  return times;
}

nlohmann::ordered_json to_json(const CallTimes& times) {
  nlohmann::ordered_json out = {{"time_us", times.p50},   {"alg_bw", times.alg_bw},
                                {"bus_bw", times.bus_bw}, {"nwrong", nullptr},
                                {"avg", times.avg},       {"min", times.min},
                                {"max", times.max},       {"p50", times.p50},
                                {"p95", times.p95},       {"p99", times.p99}};
  if (times.wrong) out["nwrong"] = *times.wrong;
  return out;
}

Interleaving interleaving_for(std::int64_t bytes) {
  if (bytes <= 1 << 20) return {1, 20, 10, 1};
  return bytes <= 16 << 20 ? Interleaving{1, 20, 2, 0} : Interleaving{1, 11, 1, 0};
}

void interleave(const std::vector<Contender*>& contenders, const Interleaving& turns,
                RankGroup::From from) {
  for (int round = -turns.warm_up; round < turns.rounds; ++round)
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      // Another one begins each time, so that nobody always follows the same one.
      const std::size_t shift = static_cast<std::size_t>(round + turns.warm_up);
      Contender& one = *contenders[(i + shift) % contenders.size()];
      const std::vector<double> us = one.group->turn(one.way, turns.first + turns.calls, from);
      if (round >= 0) one.us.insert(one.us.end(), us.begin() + turns.first, us.end());
      if (one.checked && (round < 0 || round + 1 == turns.rounds))
        one.wrong += one.group->count_wrong();
    }
}

}  // namespace ringside::tools::bench
