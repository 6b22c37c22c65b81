// Chakra execution traces (Sridharan et al. 2023, MLCommons), the input of simulators such as
// ASTRA-sim.
#pragma once

#include <filesystem>
#include <string>

#include "experiments/chakra/graph.h"

namespace ringside::chakra {

/// Writes NAME.RANK.et for every rank, and NAME.groups.json, which says which ranks each group has.
/// A file of a rank is a stream of messages of et_def.proto, each behind its length: the metadata,
/// and then the nodes in the order of their ids. The folder is made if it does not exist. Throws
/// Error if a file cannot be written, or if the program was built without protobuf.
void write_files(const Run& run, const std::filesystem::path& folder, const std::string& name);

}  // namespace ringside::chakra
