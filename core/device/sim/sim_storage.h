// The storage of a simulated rank's checkpoints.
#pragma once

#include <memory>

#include "core/device/sim/sim_device.h"
#include "core/device/virtual_storage.h"

namespace ringside::sim {

/// The storage of the cluster (ClusterSpec::storage), as the rank on `device` reaches it: through
/// the host of its machine, whose way to it all ranks of the machine share. Copies of a GPU's
/// memory go over its PCIe link, those between the memories of one CPU as messages there do; a
/// host's own memory is read and written by one of its cores. The device outlives the storage.
std::unique_ptr<VirtualStorage> make_sim_storage(SimDevice& device);

}  // namespace ringside::sim
