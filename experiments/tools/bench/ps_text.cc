#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "experiments/tools/bench/ps_bench.h"

namespace ringside::tools::bench {

nlohmann::ordered_json to_json(const PsRow& row) {
  return {{"operation", "push_pull"},
          {"transport", name_of(row.way.transport)},
          {"consistency", name_of(row.way.consistency)},
          {"placement", name_of(row.way.placement)},
          {"encrypted", !row.way.reach.keys.empty()},
          {"partition_mb", row.way.partition_mb},
          {"workers", row.workers},
          {"servers", row.way.servers},
          {"size", row.size},
          {"count", row.count},
          {"type", "float"},
          {"redop", "sum"},
          {"bounds_us",
           {{"copy", row.bounds.copy},
            {"copy_by_two", row.bounds.copy_by_two},
            {"tcp", row.bounds.tcp},
            {"unix", row.bounds.unix_socket},
            {"zmq", row.bounds.zmq}}},
          {"in_place", to_json(static_cast<const CallTimes&>(row))}};
}

std::string heading_of_ps_rows() {
  return fmt::format(
      "{:<10}{:<12}{:>8}{:>8}{:>12}{:>12}{:>7}{:>7}{:>12}{:>8}{:>8}{:>8}{:>12}{:>12} |{:>11}{:>11}"
      "{:>11}{:>11}{:>11}\n",
      "transport", "consistency", "workers", "servers", "size(B)", "count", "type", "redop",
      "time(us)", "algbw", "busbw", "#wrong", "p95(us)", "p99(us)", "copy(us)", "copy2(us)",
      "tcp(us)", "unix(us)", "zmq(us)");
}

std::string text_of(const PsRow& row) {
  return fmt::format(
      "{:<10}{:<12}{:>8}{:>8}{:>12}{:>12}{:>7}{:>7}{:>12.2f}{:>8.2f}{:>8.2f}{:>8}{:>12.2f}"
      "{:>12.2f} |{:>11.2f}{:>11.2f}{:>11.2f}{:>11.2f}{:>11.2f}\n",
      name_of(row.way.transport), name_of(row.way.consistency), row.workers, row.way.servers,
      row.size, row.count, "float", "sum", row.p50, row.alg_bw, row.bus_bw, row.wrong.value_or(0),
      row.p95, row.p99, row.bounds.copy, row.bounds.copy_by_two, row.bounds.tcp,
      row.bounds.unix_socket, row.bounds.zmq);
}

std::string notes_of(const std::vector<PsRow>& rows) {
  std::int64_t wrong = 0;
  for (const PsRow& row : rows) wrong += row.wrong.value_or(0);
  return fmt::format(
      "\ntime: median, from the first worker's push to the last byte in the last worker's tensor; "
      "all values of all calls are checked.\n"
      "algbw = size / time; busbw = (bytes pushed + bytes pulled by a worker) / time = 2 x size / "
      "time, GB/s (1 GB = 1e9 bytes).\n"
      "Bounds of one worker's bytes in the same run: copy, copy2: copied within memory there and "
      "back by one process, by two at once (2 x size read, 2 x size written); tcp, unix: there and "
      "back over a raw socket, 256 KB a call; zmq: there and back over TCP by ZeroMQ alone, in "
      "messages of at most 1 MB.\n"
      "# Out of bounds values : {} {}\n",
      wrong, wrong == 0 ? "OK" : "FAILED");
}

}  // namespace ringside::tools::bench
