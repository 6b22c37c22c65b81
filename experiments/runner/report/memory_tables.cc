// Tables of memory.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/runner/report/report_tables.h"

namespace ringside::runner {
namespace {

bool any_role(const std::vector<CaseSummary>& cases, bool (*has)(const RoleMemory&)) {
  return std::any_of(cases.begin(), cases.end(), [&](const CaseSummary& one) {
    return std::any_of(one.memory.roles.begin(), one.memory.roles.end(), has);
  });
}

std::string bytes_range(const BytesRange& range) {
  const std::string low = peak_cell(range.low), high = peak_cell(range.high);
  return low == high ? low : low + "-" + high;
}

void add_kinds(TableLine& line, const MemoryUse& use) {
  for (std::size_t k = 0; k < memory_kinds; ++k)
    line.push_back(use.total() > 0 ? megabytes(static_cast<double>(use[static_cast<MemoryKind>(k)]))
                                   : "-");
}

std::string device_bytes(const RoleMemory& role, std::int64_t DeviceMemory::*figure) {
  return role.device ? megabytes(static_cast<double>((*role.device).*figure)) : "-";
}

}  // namespace

std::string peak_cell(std::int64_t bytes) {
  return bytes > 0 ? megabytes(static_cast<double>(bytes)) : "-";
}

bool with_device_memory(const std::vector<CaseSummary>& cases) {
  return any_role(cases, [](const RoleMemory& role) { return role.device.has_value(); });
}

bool with_host_memory(const std::vector<CaseSummary>& cases) {
  return any_role(cases, [](const RoleMemory& role) { return role.host.has_value(); });
}

std::vector<TableLine> memory_table(const std::vector<CaseSummary>& cases) {
  const bool of_device = with_device_memory(cases), predictions = with_predictions(cases);
  TableLine names = {"peak memory, MB", "world", "all ranks", "role", "rank", "peak"};
  for (std::size_t k = 0; k < memory_kinds; ++k)
    names.emplace_back(name_of(static_cast<MemoryKind>(k)));
  names.emplace_back("resident");
  if (of_device) names.insert(names.end(), {"reserved", "outside"});
  if (predictions) names.emplace_back("predicted");
  std::vector<TableLine> lines = {names};
  for (const CaseSummary& one : cases)
    for (const RoleMemory& role : one.memory.roles) {
      const bool first = &role == &one.memory.roles.front();
      TableLine line = {
          one.label(),
          std::to_string(one.plan.world),
          first ? bytes_range(one.memory.job) : "",
          role.ranks > 1 ? fmt::format("busiest of {} {}s", role.ranks, role.role) : role.role,
          std::to_string(role.rank),
          bytes_range(role.peak)};
      add_kinds(line, role.at_peak);
      line.push_back(one.simulated() ? "-" : megabytes(static_cast<double>(role.resident)));
      if (of_device)
        line.insert(line.end(), {device_bytes(role, &DeviceMemory::reserved),
                                 device_bytes(role, &DeviceMemory::outside)});
      if (predictions)
        line.push_back(one.predicted && role.peak.high == one.memory.peak()
                           ? prediction_cell(one.predicted->memory_peak, 1e-6,
                                             one.predicted->memory_peak_error)
                           : "-");
      lines.push_back(std::move(line));
      if (!role.host) continue;
      const MemoryUse& held = role.host->at_peak;
      TableLine host = {one.label(),
                        std::to_string(one.plan.world),
                        "",
                        "its host",
                        std::to_string(role.rank),
                        megabytes(static_cast<double>(held.total()))};
      add_kinds(host, held);
      host.resize(names.size(), "-");
      lines.push_back(std::move(host));
    }
  return lines.size() > 1 ? lines : std::vector<TableLine>{};
}

std::vector<TableLine> ranks_table(const std::vector<CaseSummary>& cases) {
  TableLine names = {"peak memory, MB", "world", "rank", "role", "host", "peak"};
  for (std::size_t k = 0; k < memory_kinds; ++k)
    names.emplace_back(name_of(static_cast<MemoryKind>(k)));
  std::vector<TableLine> lines = {names};
  for (const CaseSummary& one : cases)
    for (const RankMemory& rank : one.memory.ranks) {
      TableLine& line = lines.emplace_back(TableLine{one.label(), std::to_string(one.plan.world),
                                                     std::to_string(rank.rank), rank.role,
                                                     rank.host, peak_cell(rank.peak)});
      add_kinds(line, rank.at_peak);
    }
  return lines.size() > 1 ? lines : std::vector<TableLine>{};
}

}  // namespace ringside::runner
