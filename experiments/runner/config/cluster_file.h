// The cluster file: a description of machines to simulate.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/sim/cluster.h"

namespace ringside::runner {

/// Reads a cluster file (experiments/clusters/*.toml; docs/simulator.md) and the files
/// that it includes, such as the catalog. Devices, links and NICs are given by name; the file may
/// define them itself, or override those of the catalog key by key. Throws Error that names the
/// file, the line and the reason if the file cannot be read, a key or name is unknown (the nearest
/// known one is suggested), a value has the wrong type or is out of range, or something is missing.
sim::ClusterSpec read_cluster(const std::filesystem::path& file);

/// The file and all files that it includes. Throws Error as read_cluster() would.
std::vector<std::filesystem::path> cluster_files(const std::filesystem::path& file);

/// The text of a cluster file from which read_cluster() makes `cluster`. The file includes no
/// others, and `comment` stands at its head. Throws Error if two devices of the cluster, or its
/// host, have the same name but differ, because a file defines a name only once.
std::string cluster_text(const sim::ClusterSpec& cluster, const std::string& comment);

}  // namespace ringside::runner
