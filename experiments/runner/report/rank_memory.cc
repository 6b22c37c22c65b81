#include "experiments/runner/report/rank_memory.h"

#include <algorithm>

namespace ringside::runner {

Fields fields_of(RankMemory& memory) {
  return {{"rank", &memory.rank},
          {"role", &memory.role},
          {"host", &memory.host},
          {"peak", &memory.peak},
          {"at_peak", fields_of(memory.at_peak)},
          {"host_memory", Structs(&memory.host_memory)}};
}

RanksMemory memory_of_ranks(const std::vector<const RunRecord*>& repeats,
                            const std::vector<int>& busiest) {
  RanksMemory out;
  const std::size_t ranks = repeats[0]->ranks.size();
  const auto is_kept = [&](std::size_t rank) {
    const auto number = static_cast<int>(rank);
    return ranks <= most_shown_ranks || number < first_ranks ||
           std::find(busiest.begin(), busiest.end(), number) != busiest.end();
  };
  for (std::size_t r = 0; r < ranks; ++r) {
    if (!is_kept(r)) {
      ++out.left_out;
      continue;
    }
    RankMemory& memory = out.ranks.emplace_back();
    for (const RunRecord* row : repeats) {
      if (r >= row->ranks.size()) continue;
      const RankRecord& record = row->ranks[r];
      if (record.at_peak.total() <= memory.peak) continue;
      memory.peak = record.at_peak.total();
      memory.at_peak = record.at_peak;
      memory.host_memory = record.host_memory;
    }
    memory.rank = static_cast<int>(r);
    memory.role = repeats[0]->plan.ranks[r].role();
    memory.host = repeats[0]->ranks[r].host;
  }
  return out;
}

}  // namespace ringside::runner
