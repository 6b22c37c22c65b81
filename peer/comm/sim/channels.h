// The channels of rings and trees through a group's machines.
#pragma once

#include <vector>

#include "core/sim/world.h"

namespace ringside::peer {

/// The ranks of each machine, in the order in which a channel leads through them. Data enters and
/// leaves the machine at the first one.
using Channel = std::vector<std::vector<int>>;

/// Within a machine a channel follows the order of devices that the cluster gives
/// (ClusterSpec::ring); ranks on the same device follow each other in rank order. On one machine
/// there is one channel. On several machines there are as many as there are NICs in use on a
/// machine (the least number of all machines); each enters a machine through a NIC of its own.
std::vector<Channel> channels_of(const sim::ClusterSpec& cluster,
                                 const std::vector<sim::Place>& places);

}  // namespace ringside::peer
