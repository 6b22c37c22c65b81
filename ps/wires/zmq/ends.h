// The two ends of channels over ZeroMQ: within a rank, between processes of one host, or over TCP.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/observe/timeline.h"
#include "ps/protocol/transport.h"
#include "ps/wires/zmq/hub.h"

namespace ringside::ps {

/// A server's end of a channel.
struct ServerEnd {
  std::unique_ptr<Channel> channel;
  std::string endpoint;  // for workers of other ranks
};

/// Listens for workers of other ranks, on a socket name that leaves no file (ipc) or on 127.0.0.1
/// (tcp), and within the hub for a worker of the same rank. Refuses workers that do not know
/// `token`. If the port is taken, throws Error that names the port and the option that sets it.
ServerEnd open_server(Device& device, std::shared_ptr<Hub> hub, std::uint64_t token, int server,
                      const TransportOptions& options);

/// Makes a worker's end, with one connection for each server's endpoint; for a server that shares
/// the hub the endpoint is local_endpoint(). The timeline gets the time in which a send blocks, as
/// Activity::exposed.
std::unique_ptr<Channel> connect_worker(Device& device, std::shared_ptr<Hub> hub,
                                        std::uint64_t token, int worker,
                                        const std::vector<std::string>& endpoints,
                                        const TransportOptions& options, Timeline& timeline);

}  // namespace ringside::ps
