// What all schemes with servers set up from a plan, and which options they refuse.
#pragma once

#include <memory>
#include <string_view>

#include "ps/protocol/client.h"
#include "ps/protocol/server.h"
#include "ps/protocol/transport.h"

namespace ringside::ps {

/// The number of gradients of one chunk that a worker pushes in a step.
inline std::int64_t pushes_a_step(const TrainConfig& train) {
  return train.reduce == "every" ? train.accumulation : 1;
}

/// The configuration of this rank's server, according to the plan.
ServerConfig server_config(const RankContext& context, std::uint64_t token);

/// Makes a worker's client of all servers. Blocks until all servers listen.
std::unique_ptr<Client> connect(const RankContext& context, Transport& transport,
                                TransportOptions options);

/// Throws Error for a transport that does not exist or a port that is out of range; the error names
/// the scheme's option.
void check_transport(std::string_view scheme, const std::string& transport, std::int64_t port,
                     std::int64_t servers);
/// Throws Error for a placement, or a device of servers, that does not exist.
void check_placement(std::string_view scheme, const std::string& placement,
                     const std::string& server_device);

}  // namespace ringside::ps
