// The two ends of channels over ZeroMQ: within a rank, between processes of one host, or over TCP.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/observe/timeline.h"
#include "ps/protocol/transport.h"
#include "ps/transport/zmq/context.h"

namespace ringside::ps {

/// The secrets that the members of a run share.
struct Run {
  /// Drawn anew for every run, so that its messages are distinguished from those of other runs.
  std::uint64_t token = 0;
  /// Secret. Workers present it when they connect, unless they have keys.
  std::string secret{};
  /// The number of workers that a server awaits from other ranks. Once all have connected, it
  /// accepts no more.
  int outside = 1;
  /// Whether every worker and server of the run can have a core of its own.
  bool has_cores = false;
};

/// A server's end of a channel.
struct ServerEnd {
  std::unique_ptr<Channel> channel;
  std::string endpoint;  // for workers of other ranks
};

/// Listens for workers of other ranks, on a local socket without a name (ipc) or on an address
/// (tcp), and within `zmq_context` for a worker of the same rank. `workers` is the number of all
/// workers. Only workers of the run are heard: a connection that has not proved in time to be of
/// one (by the run's secret or, with options.keys, by its key) is closed before any message of it
/// is read. If the port is in use, throws Error that names the port and the option that sets it.
ServerEnd open_server(Device& device, std::shared_ptr<ZmqContext> zmq_context, const Run& run,
                      int workers, int server, const TransportOptions& options);

/// Makes a worker's end, with one connection for each server's endpoint; for a server that shares
/// `zmq_context` the endpoint is local_endpoint(). The time in which a send blocks is recorded in
/// the timeline as Activity::exposed.
std::unique_ptr<Channel> connect_worker(Device& device, std::shared_ptr<ZmqContext> zmq_context,
                                        const Run& run, int worker,
                                        const std::vector<std::string>& endpoints,
                                        const TransportOptions& options, Timeline& timeline);

}  // namespace ringside::ps
