#include "experiments/runner/report/memory_summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/json_fields.h"

namespace ringside::runner {
namespace {

RoleMemory& role_of(MemorySummary& memory, const std::string& role) {
  for (RoleMemory& known : memory.roles)
    if (known.role == role) return known;
  return memory.roles.emplace_back(RoleMemory{.role = role});
}

/// Widens the range by the peak of one more repeat.
void widen(BytesRange& range, std::int64_t most, bool first) {
  range = first ? BytesRange{most, most}
                : BytesRange{std::min(range.low, most), std::max(range.high, most)};
}

void add_rank(RoleMemory& role, const RankRecord& rank) {
  const std::int64_t held = rank.at_peak.total(), resident = rank.rss - rank.rss_of_peers;
  // For ranks that do not report their memory by kind (another program), the largest process
  // counts.
  if (held == 0 ? resident <= role.resident : held <= role.at_peak.total()) return;
  role.rank = rank.rank;
  role.at_peak = rank.at_peak;
  role.resident = resident;
  role.device = rank.device_memory;
  role.host = rank.host_memory;
}

}  // namespace

std::int64_t MemorySummary::peak() const {
  std::int64_t most = 0;
  for (const RoleMemory& role : roles) most = std::max(most, role.peak.high);
  return most;
}

MemoryUse MemorySummary::of_worker() const {
  MemoryUse most;
  for (const RoleMemory& role : roles)
    if (role.role.starts_with("worker") && role.at_peak.total() > most.total()) most = role.at_peak;
  return most;
}

MemorySummary summarise_memory(const std::vector<const RunRecord*>& repeats) {
  MemorySummary memory;
  for (const RunRecord* row : repeats) {
    const bool first = row == repeats.front();
    std::int64_t job = 0;
    for (const RankRecord& rank : row->ranks) job += rank.at_peak.total();
    widen(memory.job, job, first);
    for (const RankPlan& plan : row->plan.ranks) role_of(memory, plan.role());
    for (RoleMemory& role : memory.roles) {
      role.ranks = 0;
      std::int64_t busiest = 0;
      for (std::size_t r = 0; r < row->ranks.size(); ++r) {
        if (row->plan.ranks[r].role() != role.role) continue;
        ++role.ranks;
        busiest = std::max(busiest, row->ranks[r].at_peak.total());
        add_rank(role, row->ranks[r]);
      }
      widen(role.peak, busiest, first);
    }
  }
  std::vector<int> busiest;
  for (const RoleMemory& role : memory.roles) busiest.push_back(role.rank);
  RanksMemory kept = memory_of_ranks(repeats, busiest);
  memory.ranks = std::move(kept.ranks);
  memory.ranks_left_out = kept.left_out;
  return memory;
}

static Fields fields_of(BytesRange& range) { return {{"low", &range.low}, {"high", &range.high}}; }

static Fields fields_of(RoleMemory& role) {
  return {{"role", &role.role},
          {"ranks", &role.ranks},
          {"peak", fields_of(role.peak)},
          {"rank", &role.rank},
          {"at_peak", fields_of(role.at_peak)},
          {"resident", &role.resident},
          {"device", Structs(&role.device)},
          {"host", Structs(&role.host)}};
}

static Fields fields_of(MemorySummary& memory) {
  return {{"all_ranks", fields_of(memory.job)},
          {"roles", Structs(&memory.roles)},
          {"ranks", Structs(&memory.ranks)},
          {"ranks_left_out", &memory.ranks_left_out}};
}

nlohmann::ordered_json to_json(const MemorySummary& memory) {
  nlohmann::ordered_json out = {{"peak", memory.peak()}};
  out.update(to_json(fields_to_read(memory)));
  return out;
}

}  // namespace ringside::runner
