// Chakra execution traces (Sridharan et al. 2023, MLCommons), the input of simulators such as
// ASTRA-sim.
#pragma once

#include <filesystem>
#include <string>

#include "experiments/tools/chakra/graph.h"

namespace ringside::tools::chakra {

/// Writes NAME.RANK.et for every rank, and NAME.groups.json, which lists the ranks of each group. A
/// file of a rank is a stream of messages of et_def.proto, each behind its length: the metadata,
/// and then the nodes in the order of their ids. The schema hardly defines its members; they have
/// the meaning that ASTRA-sim's workload layer gives them:
///
///   comm_size        all_gather: bytes of a rank's own part; all others: bytes of the whole array
///   pg_name          a number from 1; 0 means all ranks there, whatever the groups say
///   duration_micros  the time of a node that computes, or broadcasts; the time of other
///                    collectives is simulated, and start_time_micros is not read
///   is_cpu_op        false; a compute node has no num_ops and tensor_size, so ASTRA-sim must run
///                    without its roofline model
///
/// The folder is made if it does not exist. Throws Error if a file cannot be written, or if the
/// program was built without protobuf.
void write_files(const Run& run, const std::filesystem::path& folder, const std::string& name);

}  // namespace ringside::tools::chakra
