#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "experiments/runner/report/text_table.h"
#include "experiments/tools/bench/comm_bench.h"

namespace ringside::tools::bench {
namespace {

/// The algorithm; of another library, the library.
std::string who(const CommRow& row) {
  return row.algorithm ? std::string(name_of(*row.algorithm)) : row.communicator;
}

std::string size_text(std::int64_t bytes) {
  for (const auto& [unit, name] :
       {std::pair(1LL << 30, "GiB"), {1LL << 20, "MiB"}, {1LL << 10, "KiB"}})
    if (bytes >= unit && bytes % unit == 0) return fmt::format("{} {}", bytes / unit, name);
  return fmt::format("{} B", bytes);
}

}  // namespace

nlohmann::ordered_json to_json(const CommRow& row) {
  nlohmann::ordered_json out = {{"operation", row.operation},
                                {"communicator", row.communicator},
                                {"algorithm", nullptr},
                                {"world", row.world},
                                {"size", row.size},
                                {"count", row.count},
                                {"type", "float"},
                                {"redop", row.reduction},
                                {"bound_us", nullptr},
                                {"ratio", nullptr},
                                {"in_place", to_json(static_cast<const CallTimes&>(row))}};
  if (row.algorithm) out["algorithm"] = name_of(*row.algorithm);
  if (row.bound_us) out["bound_us"] = *row.bound_us;
  if (row.ratio) out["ratio"] = *row.ratio;
  if (!row.note.empty()) out["note"] = row.note;
  return out;
}

std::string heading_of_rows() {
  return fmt::format(
      "{:<15}{:<23}{:>5}{:>12}{:>12}{:>7}{:>7}{:>12}{:>8}{:>8}{:>8}{:>13}{:>13}{:>13}{:>8}\n",
      "operation", "algorithm", "world", "size(B)", "count", "type", "redop", "time(us)", "algbw",
      "busbw", "#wrong", "p95(us)", "p99(us)", "bound(us)", "ratio");
}

std::string text_of(const CommRow& row) {
  return fmt::format(
      "{:<15}{:<23}{:>5}{:>12}{:>12}{:>7}{:>7}{:>12.2f}{:>8.2f}{:>8.2f}{:>8}{:>13.2f}{:>13.2f}"
      "{:>13}{:>8}\n",
      row.operation, who(row), row.world, row.size, row.count, "float", row.reduction, row.p50,
      row.alg_bw, row.bus_bw, row.wrong ? fmt::format("{}", *row.wrong) : "N/A", row.p95, row.p99,
      row.bound_us ? fmt::format("{:.2f}", *row.bound_us) : "-",
      row.ratio ? fmt::format("{:.2f}", *row.ratio) : "-");
}

std::string notes_of(const std::vector<CommRow>& rows) {
  // By operation, size and world: the rows of all algorithms.
  std::map<std::string, std::map<std::int64_t, std::map<int, std::vector<const CommRow*>>>> all;
  std::set<int> worlds;
  for (const CommRow& row : rows) {
    all[row.operation][row.size][row.world].push_back(&row);
    worlds.insert(row.world);
  }
  std::string out;
  for (const auto& [operation, sizes] : all) {
    std::vector<runner::TableLine> lines = {{operation}};
    for (const int world : worlds) lines[0].push_back(fmt::format("world {}", world));
    for (const auto& [size, by_world] : sizes) {
      runner::TableLine& line = lines.emplace_back(runner::TableLine{size_text(size)});
      for (const int world : worlds) {
        const auto cell = by_world.find(world);
        if (cell == by_world.end()) {
          line.emplace_back("-");
          continue;
        }
        std::vector<const CommRow*> order = cell->second;
        std::stable_sort(order.begin(), order.end(),
                         [](const CommRow* a, const CommRow* b) { return a->p50 < b->p50; });
        line.push_back(who(*order[0]));
        if (order.size() > 1)
          line.back() += fmt::format(" ({:.2f}x)", order[1]->p50 / order[0]->p50);
      }
    }
    out += "\n";
    out += runner::text_table(lines, 60);
  }
  std::int64_t wrong = 0;
  bool checked = false, beside = false;
  std::set<std::string> notes;
  for (const CommRow& row : rows) {
    wrong += row.wrong.value_or(0);
    checked = checked || row.wrong;
    beside = beside || row.ratio;
    if (!row.note.empty()) notes.insert(row.note + ".\n");
  }
  return fmt::format(
      "{}\nThe{} with the least time(us); in brackets, that of the second as a multiple.\n{}{}"
      "algbw = size / time, GB/s (1 GB = 1e9 bytes); busbw = algbw x 2(n-1)/n for all_reduce, "
      "(n-1)/n for reduce_scatter, all_gather and all_to_all, 1 for broadcast.\n"
      "# Out of bounds values : {}\n",
      out, beside ? " one" : " algorithm",
      beside ? fmt::format("ratio = time / that of {}.\n", who(rows[0])) : "", fmt::join(notes, ""),
      checked ? fmt::format("{} {}", wrong, wrong == 0 ? "OK" : "FAILED")
              : "N/A (a simulation moves no values)");
}

}  // namespace ringside::tools::bench
