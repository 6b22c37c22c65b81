// How the workers and the servers of a run find each other.
#pragma once

#include <memory>

#include "core/scheme.h"
#include "ps/client.h"
#include "ps/server.h"
#include "ps/zmq_channel.h"

namespace ringside::ps {

struct Listening {
  std::unique_ptr<Channel> channel;
  std::uint64_t token = 0;
};

/// For a server rank: opens its end and says where in the store; server 0 also draws the run's
/// token. Blocks until the token is there.
Listening listen(const RankContext& context, const ZmqOptions& options);

/// What the plan says about the server of this rank.
ServerConfig server_config(const RankContext& context, std::uint64_t token);

/// For a worker rank: a client of all servers; of the one beside it, if any, within the process.
/// Blocks until all servers listen.
std::unique_ptr<Client> connect(const RankContext& context, const ZmqOptions& options);

/// Throws Error for a transport that there is not or a port that cannot be, named as options of
/// the scheme.
void check_transport(std::string_view scheme, const std::string& transport, std::int64_t port,
                     std::int64_t servers);
/// Throws Error for a placement that there is not.
void check_placement(std::string_view scheme, const std::string& placement);

}  // namespace ringside::ps
