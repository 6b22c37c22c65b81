// Published times of collectives, beside those of a simulated cluster.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/fields.h"
#include "experiments/runner/report/published.h"
#include "experiments/tools/bench/comm_bench.h"

namespace ringside::tools::bench {

/// One table [[collective]] of a file: the bandwidth of an operation by size, as nccl-tests defines
/// it, on the first `world` devices of a cluster.
struct PublishedCollective {
  std::string label;
  std::string cluster;  // cluster file; in a file, relative to the folder of that file
  std::string operation = "all_reduce";
  std::int64_t world = 0;  // in a file with a table that lists its ranks it may be left out
  /// The table: a file that read_measured_table() reads, in a file relative to the folder of that
  /// file, or sizes of the whole array (MiB = 2^20 bytes) with their figures, or, for small arrays,
  /// sizes in bytes with their times.
  std::string table{};
  std::vector<std::int64_t> sizes_mib{}, sizes_b{};
  /// GB/s and microseconds, one for each size. With `us`, busbw has the same figures once read.
  std::vector<double> busbw{}, us{};
  /// Those of sizes_mib to which something was fitted.
  std::vector<std::int64_t> fitted{};
  /// Bytes, one for each of busbw; no key of a file.
  std::vector<std::int64_t> sizes{};
};
/// The keys of a file.
Fields fields_of(PublishedCollective& one);

/// Whether the file holds such tables, and is no experiment file. Throws Error as read_toml() does.
bool lists_collectives(const std::filesystem::path& file);
/// Checks everything that can be wrong about the file. Throws Error that names the place of a key
/// that is unknown, missing or has a bad value.
std::vector<PublishedCollective> read_collectives(const std::filesystem::path& file);

/// The benchmark of the table on its cluster, and what its figure `i` says: "GB/s, 16 MiB", or
/// "us, 512 B" of arrays of less than 1 MiB.
CommBench bench_of(const PublishedCollective& one);
std::string figure_of(const PublishedCollective& one, std::size_t i);

/// Simulates all of them, of which `experiment` is the name in tables; without `tuning` on rings
/// alone (CollectiveTuning::rings). Blocks, and throws Error as run_comm_bench() does.
std::vector<runner::PublishedFigure> simulate_collectives(
    const std::vector<PublishedCollective>& all, const std::string& experiment, bool tuning = true);

}  // namespace ringside::tools::bench
