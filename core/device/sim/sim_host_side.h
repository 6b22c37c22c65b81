// The host side of a simulated device.
#pragma once

#include <memory>

#include "core/device/host_side.h"
#include "core/device/sim/sim_device.h"

namespace ringside::sim {

/// Lanes are actors. A copy is a flow between the device and its machine's host: it shares PCIe,
/// and ClusterSpec::pcie_root_gbs, with all other flows that take the same way. Work of run() takes
/// the time of the kernels that it calls on `host`, on all cores of the host, which it shares with
/// the other ranks of the machine. `host` is a device of the host of the machine on which `device`
/// is; with numerics both must have them. The device outlives the host side, and is not shared
/// (SimDevice::share()).
std::unique_ptr<HostSide> make_sim_host_side(SimDevice& device, std::unique_ptr<SimDevice> host);

}  // namespace ringside::sim
