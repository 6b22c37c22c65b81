// The communicator of a group with one rank.
#pragma once

#include <memory>
#include <string>

#include "core/comm/communicator.h"

namespace ringside::peer {

/// A communicator of one rank. A collective has ended when its call returns, and costs only the
/// copies that it needs. A message of the rank to itself has ended when it has been both sent and
/// received. Uses no thread and no shared state.
std::unique_ptr<Communicator> make_local_communicator(Device& device, const std::string& name);

}  // namespace ringside::peer
