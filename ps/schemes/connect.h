// What the schemes with servers set up from a plan, and refuse of their options.
#pragma once

#include <memory>
#include <string_view>

#include "ps/protocol/client.h"
#include "ps/protocol/server.h"
#include "ps/protocol/transport.h"

namespace ringside::ps {

/// Gradients of a chunk that a worker pushes a step.
inline std::int64_t pushes_a_step(const TrainConfig& train) {
  return train.reduce == "every" ? train.accumulation : 1;
}

/// What the plan says about the server of this rank.
ServerConfig server_config(const RankContext& context, std::uint64_t token);

/// For a worker rank: a client of all servers. Blocks until all servers listen.
std::unique_ptr<Client> connect(const RankContext& context, Transport& transport,
                                TransportOptions options);

/// Throws Error for a transport that there is not or a port that cannot be, named as options of
/// the scheme.
void check_transport(std::string_view scheme, const std::string& transport, std::int64_t port,
                     std::int64_t servers);
/// Throws Error for a placement, or a device of servers, that there is not.
void check_placement(std::string_view scheme, const std::string& placement,
                     const std::string& server_device);

}  // namespace ringside::ps
