// `ringside bench comm`: the cost of collectives, by operation, size, algorithm and number of
// ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/comm/algorithm.h"
#include "core/launch/local_host.h"
#include "core/plan/device_config.h"
#include "core/sim/cluster.h"
#include "experiments/tools/bench/interleaving.h"
#include "experiments/tools/bench/reference_libraries.h"

namespace ringside::tools::bench {

struct CommBench {
  std::vector<std::string> operations;
  std::vector<Algorithm> algorithms;  // the first one is what other libraries are compared with
  std::vector<int> worlds;
  std::vector<std::int64_t> sizes;  // bytes of the whole array
  /// Simulated ranks on the first devices of this cluster; none: processes of this host.
  std::optional<sim::ClusterSpec> cluster{};
  DeviceConfig device{};                   // of the processes
  std::vector<ReferenceLibrary> beside{};  // other libraries, measured beside the processes
  int rounds = 0;                          // turns of each; 0: as many as the size allows
  double timeout_s = 60;                   // deadline for a missing rank
  RankProgram program{};                   // of the processes, as for start_ranks()
  std::function<bool()> interrupted = [] { return false; };  // called ten times a second
};

/// One operation of one size by one algorithm. Times are from the moment when the last rank begins
/// to the moment when the last rank ends.
struct CommRow : CallTimes {
  std::string communicator;  // "shm", "nccl", "sim", or the name of another library
  int world = 0;
  std::string operation;
  std::optional<Algorithm> algorithm = Algorithm::native;  // none: another library's
  std::int64_t size = 0, count = 0;  // bytes and fp32 elements of the whole array
  std::string reduction;
  /// The median time in which ranks that do not communicate sum as many bytes of their own memory,
  /// measured between the calls; none for other operations than all_reduce and in simulations.
  std::optional<double> bound_us{};
  /// Of another library: its median time as a multiple of ours with the first algorithm.
  std::optional<double> ratio{};
  std::string note{};  // a note on the ranks for readers of the figures; mostly empty
};

/// Throws Error for operations, algorithms, worlds and sizes that cannot be measured.
void check(const CommBench& bench);

/// Measures all combinations and hands each row to `report` as soon as it is known. The algorithms
/// and libraries of one size are interleaved in turns of a few calls, so that a disturbance of the
/// machine affects all of them; the others sleep meanwhile. `bench` has passed check(). Throws
/// Error as soon as a rank fails, and leaves no process and no file behind.
void run_comm_bench(const CommBench& bench, const std::function<void(const CommRow&)>& report);

/// A row with the keys of nccl-tests 2.19 (`-J`), and ours beside them.
nlohmann::ordered_json to_json(const CommRow& row);

/// Lines in the columns of nccl-tests, with operation, algorithm and world in front.
std::string heading_of_rows();
std::string text_of(const CommRow& row);
/// The text after the rows: for every operation the fastest algorithm or library by size and world,
/// and how many elements were wrong.
std::string notes_of(const std::vector<CommRow>& rows);

}  // namespace ringside::tools::bench
