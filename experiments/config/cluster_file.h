// The cluster file: machines to simulate.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/sim/cluster.h"

namespace ringside {

/// Reads a cluster file (experiments/clusters/*.toml; README, "Simulated clusters") with the
/// catalog that it includes: devices, links and NICs by name, each of which the file may also
/// define, or override key by key. Throws Error that names the file, the line and the reason for
/// what cannot be read, unknown keys and names (with the nearest known one), values of the wrong
/// type or out of range, and what is missing.
sim::ClusterSpec read_cluster(const std::filesystem::path& file);

/// The file and all that it includes. Throws Error as read_cluster() would.
std::vector<std::filesystem::path> cluster_files(const std::filesystem::path& file);

/// The file that read_cluster() makes `cluster` of; it includes nothing. `comment` stands at its
/// head. Device and host of one name must be the same thing.
std::string cluster_text(const sim::ClusterSpec& cluster, const std::string& comment);

}  // namespace ringside
