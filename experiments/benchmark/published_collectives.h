// Published times of collectives, and what a simulated cluster makes of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/fields.h"
#include "experiments/report/published.h"

namespace ringside {

/// One table [[collective]] of a file: what an operation reached by size, in nccl-tests' terms, on
/// the first `world` devices of a cluster.
struct PublishedCollective {
  std::string label;
  std::string cluster;  // cluster file; in a file, relative to the folder of that file
  std::string operation = "all_reduce";
  std::int64_t world = 2;
  std::vector<std::int64_t> sizes_mib{};  // of the whole array; MiB = 2^20 bytes
  std::vector<double> busbw{};            // GB/s, one for each size
  std::vector<std::int64_t> fitted{};     // those of the sizes to which something was fitted
};
Fields fields_of(PublishedCollective& one);

/// Whether the file holds such tables, and is no experiment file. Throws Error as read_toml() does.
bool lists_collectives(const std::filesystem::path& file);
/// Checks everything that can be wrong about the file. Throws Error that names the place of a key
/// that is unknown, missing or has a bad value.
std::vector<PublishedCollective> read_collectives(const std::filesystem::path& file);

/// Simulates all of them, of which `experiment` is the name in tables. Blocks, and throws Error as
/// run_comm_bench() does.
std::vector<PublishedFigure> simulate_collectives(const std::vector<PublishedCollective>& all,
                                                  const std::string& experiment);

}  // namespace ringside
