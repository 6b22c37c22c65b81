// Communicator of one rank alone.
#pragma once

#include <memory>
#include <string>

#include "core/comm/communicator.h"

namespace ringside::peer {

/// Every operation is over when it returns and costs the copies that it asks for; a message to
/// oneself is over when both of its ends are there. No thread, no shared state.
std::unique_ptr<Communicator> make_local_communicator(Device& device, const std::string& name);

}  // namespace ringside::peer
