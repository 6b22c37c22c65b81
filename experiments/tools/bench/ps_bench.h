// `ringside bench ps`: the cost of push and pull, by size, workers, servers, transport and
// consistency.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/launch/local_host.h"
#include "experiments/tools/bench/interleaving.h"
#include "experiments/tools/bench/rank_group.h"
#include "ps/protocol/partition.h"
#include "ps/schemes/ps_options.h"

namespace ringside::tools::bench {

struct PsBench {
  std::vector<int> workers, servers;
  std::vector<std::int64_t> sizes;  // bytes of the array that every worker pushes and pulls
  std::vector<decltype(ps::PsOptions::transport)> transports;
  std::vector<ps::Consistency> consistencies;
  ps::Placement placement = ps::Placement::dedicated;
  int threads = 1;  // of every rank
  int rounds = 0;   // turns of each; 0: as many as the size allows
  std::int64_t partition_bytes = ps::max_chunk_bytes;  // of what travels in one message, at most
  std::string keys{};     // transport tcp: the folder of keys; empty: none, and no encryption
  bool one_host = true;   // whether the ranks have one clock
  double timeout_s = 60;  // deadline for a missing rank
  RankProgram program{};  // as for start_ranks()
  std::function<bool()> interrupted = [] { return false; };  // called ten times a second
};

/// Median times of the bounds of ps_bounds.h for the same size in the same run, in microseconds.
struct PsBounds {
  double copy = 0, copy_by_two = 0, tcp = 0, unix_socket = 0, zmq = 0;
};

/// Push and pull of one size in one way. Times are from the moment when the first worker begins to
/// push to the moment when the last worker has all values in its own tensor; where ranks may be of
/// several hosts, the longest time of any worker by its own clock, from its own push on, after all
/// have met. alg_bw is size / time;
/// bus_bw is what a worker sends and receives by time, 2 * size / time.
struct PsRow : CallTimes {
  ps::PsOptions way;  // transport, consistency, placement, servers
  int workers = 0;
  std::int64_t size = 0, count = 0;  // bytes and fp32 elements of the array
  PsBounds bounds;
};

/// Throws Error for what cannot be measured.
void check(const PsBench& bench);

/// Measures all combinations. All ways and bounds of one size take turns of a few calls; the sizes
/// come in random order. Hands the rows of each number of workers and servers to `report`, in the
/// order of `sizes`, when all are known. `bench` has passed check(). Throws Error that names the
/// rank as soon as one fails, and leaves no process and no file behind.
void run_ps_bench(const PsBench& bench, const std::function<void(const PsRow&)>& report);

/// A row with the keys of nccl-tests 2.19 (`-J`), and ours beside them.
nlohmann::ordered_json to_json(const PsRow& row);

/// Lines in the columns of nccl-tests, with the way in front and the bounds behind.
std::string heading_of_ps_rows();
std::string text_of(const PsRow& row);
/// The text after the rows: how bandwidths and bounds are meant, and how many elements were wrong.
std::string notes_of(const std::vector<PsRow>& rows);

}  // namespace ringside::tools::bench
